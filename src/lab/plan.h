// `quire plan`: what a model's cache costs, what fits, and how fast it could go.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/hardware.h"
#include "lab/plan_cache.h"
#include "lab/plan_model.h"
#include "lab/plan_speed.h"

namespace quire {

struct PlanRequest {
  PlanModel model;
  CacheChoice cache;         // own_windows is looked at both ways
  std::int64_t context = 0;  // 0: what the model was trained for
  std::int64_t sequences = 1;
  std::optional<std::uint64_t> memory;  // for the cache; else what the machine has left beside the weights
  std::int64_t mean_tokens = 0;         // that sequences reach; 0: half of the context
  std::int64_t generate = 0;            // of the context, so many tokens are generated
  Machine machine;
  std::vector<Hardware> hardware;  // to compare with
};

// The numbers of one way to keep the cache.
struct CacheFigures {
  std::uint64_t kv_bytes = 0;
  std::int64_t max_sequences = 0, max_context = 0;
};

struct FormatFigures {
  std::string type_k, type_v;
  double bytes_per_token = 0;
  std::uint64_t kv_bytes = 0, paged_bytes = 0;
  std::int64_t max_sequences = 0;
  std::int64_t max_sequences_with_windows = 0;
};

// The same model, had it been made with another kind of attention.
struct AttentionFigures {
  std::string attention;
  std::int64_t kv_heads = 0, values = 0;  // values: of one token in one layer
  double bytes_per_token = 0;
  std::uint64_t kv_bytes = 0;
};

// One saving on top of those before it.
struct Saving {
  std::string what;
  std::uint64_t kv_bytes = 0;
  double factor = 1;  // of the one before
};

struct BatchFigures {
  std::int64_t sequences = 0;
  double step_ms = 0, tokens_per_second = 0, dollars_per_million = 0;
  bool compute_bound = false, fits = false;
};

struct LengthFigures {
  std::int64_t context = 0;
  std::uint64_t kv_bytes = 0;  // with the model's own windows
};

struct HardwareFigures {
  Hardware hardware;
  std::int64_t devices = 0;  // that hold weights and cache
  double prefill_ms = 0, decode_ms = 0, tokens_per_second = 0;
  double dollars_per_million_in = 0, dollars_per_million_out = 0;
};

struct Plan {
  PlanModel model;
  std::string type_k, type_v, policy;
  std::int64_t context = 0, sequences = 1, mean_tokens = 0;
  double bytes_per_token = 0;
  std::uint64_t memory = 0;
  CacheFigures all_layers;                   // every layer keeps what the policy keeps
  std::optional<CacheFigures> with_windows;  // local layers keep their window: where the model has them
  std::uint64_t paged_bytes = 0;             // what the engine would allocate
  std::int64_t sequences_paged = 0, sequences_preallocated = 0;
  std::int64_t kv_exceeds_weights_at = 0;  // 0: never, or the weights are not known
  Machine machine;
  std::int64_t devices_needed = 1;  // to hold weights and cache
  PhaseTime prefill, decode;
  double dollars_per_million_in = 0, dollars_per_million_out = 0;
  std::vector<FormatFigures> formats;
  std::vector<AttentionFigures> attention;
  std::vector<Saving> savings;
  std::vector<BatchFigures> batches;
  std::vector<LengthFigures> lengths;
  std::vector<HardwareFigures> hardware;
  std::optional<Generating> generating;
};

Result<Plan> make_plan(PlanRequest request);

}  // namespace quire
