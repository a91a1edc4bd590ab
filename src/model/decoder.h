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

// Asks how much attention a sequence's cached tokens get from its last `rows` rows of the batch.
struct AttentionScores {
  std::int64_t rows = 0;  // 0: not asked
  float* sums = nullptr;  // [model layers, kv_heads, cached tokens], added to
};

struct BatchSequence {
  std::int64_t rows;                // consecutive tokens of this sequence
  std::int64_t first_position;      // of the first of them
  std::span<const KvTable> tables;  // [groups]: holds what came before; this pass writes these rows
  AttentionScores scores;
  std::int64_t write_shift = 0;  // rows are written so many slots late: a fault on purpose (engine/cache_faults.h)
};

struct Batch {
  std::span<const TokenId> tokens;  // of all sequences, one after another; each below config.vocabulary
  std::span<const BatchSequence> sequences;
  std::span<const KvGroupLayout> groups;
  std::span<const KvLayerRef> layers;         // [model layers]
  std::span<const std::int64_t> logits;       // which rows of tokens want logits, ascending
  std::span<const std::int64_t> hidden = {};  // and which want what enters the vocabulary's matrix, ascending
};

// Holds the activations between calls, so a pass allocates nothing once it has seen its size.
class Decoder {
 public:
  Decoder(const ModelConfig& config, const Weights& weights, const Ops& ops, ThreadPool& pool);

  // Returns [batch.logits.size(), vocabulary], valid until the next call.
  std::span<const float> forward(const Batch& batch);
  // [batch.hidden.size(), width] of the last pass.
  std::span<const float> hidden() const { return hidden_; }
  // Held for the largest pass so far: activations and logits.
  std::int64_t scratch_bytes() const;

 private:
  // Angles of the batch at hand. Queries that look at sinks stand nearer to them than their position says.
  struct RopeAngles {
    std::vector<float> cos, sin;  // [rows, rope_dim / 2]
  };
  struct RopeTable {
    std::vector<double> frequencies;  // [rope_dim / 2]
    RopeAngles angles;
    std::vector<RopeAngles> for_sinks;  // [groups], where a sequence of the batch has sinks
  };

  void embed(const Batch& batch);
  void place_rows(const Batch& batch);
  void place_sinks();
  void leave_wanted_rows(const Batch& batch);
  void fill_rope_tables();
  void attend(std::size_t layer, const Batch& batch);
  void write_keys_and_values(std::size_t layer, const Batch& batch);
  void turn_queries(std::size_t layer, const Batch& batch);
  const RopeTable* rope_of(std::size_t layer) const;  // null: positions do not turn queries and keys
  void score(const KvTarget& kv, std::size_t layer, const Batch& batch);
  void mlp(const LayerWeights& w);
  void project_to_vocabulary(const Batch& batch);
  void final_norm(std::span<const std::int64_t> rows, float* out);

  NormParams norm_params(const Norm& norm, const float* x, float* out, std::int64_t rows, std::int64_t dim) const;
  void norm(const Norm& norm, const float* x, float* out, std::int64_t rows, std::int64_t dim);
  void fill_angles(RopeAngles& angles, const std::vector<double>& frequencies,
                   const std::vector<std::int64_t>& positions);
  void rotate(const RopeAngles& angles, std::vector<float>& x, std::int64_t rows, std::int64_t heads);
  MatmulTarget into_stream(const Linear& last);
  void add_normed_to_stream(const Norm& post_norm, std::int64_t rows);

  const ModelConfig& config_;
  const Weights& weights_;
  const Ops& ops_;
  ThreadPool& pool_;
  std::vector<RopeTable> ropes_;
  std::vector<std::int64_t> positions_;  // [rows] of the batch at hand
  // [tokens of the batch]: how many rows before it were left out; empty while none were.
  std::vector<std::int64_t> rows_left_out_;
  // [groups][rows], as sinks see them; no rows where no sequence has sinks.
  std::vector<std::vector<std::int64_t>> sink_positions_;
  std::vector<std::vector<KvRows>> placed_;   // [groups][sequences]
  std::vector<std::vector<KvRows>> written_;  // the same, where their keys and values go

  std::vector<float> stream_;                         // [rows, width]: the residual stream
  std::vector<float> branch_;                         // [rows, width]: what enters or leaves a block
  std::vector<float> q_, q_sinks_, k_, v_, context_;  // [rows, heads * head_dim]
  std::vector<float> log_sum_exp_;                    // [rows, q_heads], where somebody asks for scores
  std::vector<float> gate_, up_;                      // [rows, ff_width]
  std::vector<float> logits_;
  std::vector<float> hidden_;
};

}  // namespace quire
