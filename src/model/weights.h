// A model's tensors, found and checked. Matrices stay where the file has them; the small float
// vectors (norms, biases) are copied out as float32.
#pragma once

#include <string>
#include <vector>

#include "core/mapped_memory.h"
#include "kernels/ops.h"
#include "loader/gguf.h"
#include "model/config.h"
#include "model/packed_file.h"
#include "quire/result.h"

namespace quire {

using FloatVector = std::vector<float>;  // empty where the model has none

struct Norm {
  FloatVector weight;
  FloatVector bias;
};

struct Linear {
  WeightMatrix weight;
  FloatVector bias;

  const float* bias_or_null() const { return bias.empty() ? nullptr : bias.data(); }
};

struct LayerWeights {
  Norm attention_norm;
  Linear q, k, v, output;
  Norm q_norm, k_norm;
  Norm attention_post_norm;
  Norm mlp_norm;
  Linear gate, up, down;
  Norm mlp_post_norm;
};

struct Weights {
  WeightMatrix embedding;  // [vocabulary, width]
  WeightMatrix positions;  // [context, width], learned positions only
  std::vector<LayerWeights> layers;
  Norm output_norm;
  Linear output;  // [vocabulary, width]; the embedding again where they are tied
  FloatVector rope_factors;
  std::vector<MappedMemory> panels;      // what the matrices' panels point into
  std::vector<MappedFile> packed_files;  // or this
  std::uint64_t bytes = 0;               // of all tensors, as stored
  std::uint64_t parameters = 0;          // values in all tensors
};

// Also completes config.vocabulary, which only the embedding's shape says for sure.
// The file's bytes must outlive the result.
Result<Weights> read_weights(const Gguf& file, ModelConfig& config);

// Arranges all matrices that products read as a backend wants them, where they are not arranged so yet. What other
// backends read stays as it is. Throws std::bad_alloc.
void pack_weights(Weights& weights, const Ops& ops, ThreadPool& pool);

// The same by way of a file: mapped where it holds just these panels, else packed and written there. Where that fails
// the weights are packed all the same.
struct PackedFileUse {
  enum class Done { nothing, read, written, failed };
  Done done = Done::nothing;
  std::string failure = {};
};
// model: what tells this model's file from others.
PackedFileUse pack_weights_in_file(Weights& weights, const Ops& ops, ThreadPool& pool, const std::string& path,
                                   const Digest& model);

}  // namespace quire
