// One forward pass of a decoder-only transformer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.h"
#include "core/thread_pool.h"
#include "kernels/ops.h"
#include "kv/view.h"
#include "model/config.h"
#include "model/weights.h"

namespace quire {

struct Batch {
  std::span<const TokenId> tokens;  // consecutive, of one sequence; each below config.vocabulary
  std::int64_t first_position;
  KvView kv;                             // holds positions [0, first_position); this pass writes the next ones
  std::span<const std::int64_t> logits;  // which rows of tokens want logits, ascending
};

// Holds the activations between calls, so a pass allocates nothing once it has seen its size.
class Decoder {
 public:
  Decoder(const ModelConfig& config, const Weights& weights, const Ops& ops, ThreadPool& pool);

  // Returns [batch.logits.size(), vocabulary], valid until the next call.
  std::span<const float> forward(const Batch& batch);

 private:
  struct RopeTable {
    std::vector<double> frequencies;  // [rope_dim / 2]
    std::vector<float> cos, sin;      // [rows, rope_dim / 2], for the batch at hand
  };

  void embed(const Batch& batch);
  void fill_rope_tables(const Batch& batch);
  void attend(const LayerConfig& layer, const LayerWeights& w, const KvLayerView& kv, const Batch& batch);
  void mlp(const LayerWeights& w, std::int64_t rows);
  void project_to_vocabulary(const Batch& batch);

  void norm(const Norm& norm, const float* x, float* out, std::int64_t rows, std::int64_t dim);
  void rotate(const RopeTable& table, std::vector<float>& x, std::int64_t rows, std::int64_t heads);
  void add_to_stream(const Norm& post_norm, std::int64_t rows);

  const ModelConfig& config_;
  const Weights& weights_;
  const Ops& ops_;
  ThreadPool& pool_;
  std::vector<RopeTable> ropes_;

  std::vector<float> stream_;               // [rows, width]: the residual stream
  std::vector<float> branch_;               // [rows, width]: what enters or leaves a block
  std::vector<float> q_, k_, v_, context_;  // [rows, heads * head_dim]
  std::vector<float> gate_, up_;            // [rows, ff_width]
  std::vector<float> logits_;
};

}  // namespace quire
