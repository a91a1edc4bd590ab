// How long a model takes on a machine, by what it must compute and what it must read. Rooflines,
// not measurements: each phase takes as long as its slower side.
#pragma once

#include <cstdint>

#include "lab/hardware.h"
#include "lab/plan_cache.h"
#include "lab/plan_model.h"

namespace quire {

// Operations for the tokens at positions [first, last): two for each parameter that is used, and
// attention to all that each of them sees.
double operations(const PlanModel& model, const KvVisibility& policy, std::int64_t first, std::int64_t last);

struct Machine {
  Hardware device;
  std::int64_t devices = 1;
  // Parts of what the data sheets promise that well-made kernels reach.
  double compute_share = 0.5, read_share = 0.7;

  double operations_per_second() const;
  double read_per_second() const;
  double dollars_per_second() const;
};

struct PhaseTime {
  double ms = 0;
  bool compute_bound = false;
};

// A prompt of `context` tokens, without the prefix that is cached.
PhaseTime prefill_time(const PlanModel& model, const CacheDemand& cache, const Machine& machine, std::int64_t cached,
                       std::int64_t context);
// One token for each of `sequences` sequences of `context` tokens; `cache` knows the model's windows.
PhaseTime decode_time(const PlanModel& model, const CacheDemand& cache, const Machine& machine, std::int64_t context,
                      std::int64_t sequences);

double dollars_per_million(const Machine& machine, double ms, double tokens);

// `generated` tokens after a prompt, with a cache and with everything computed again for each.
struct Generating {
  std::int64_t prompt = 0, generated = 0;
  std::uint64_t kv_bytes_before = 0, kv_bytes_after = 0;
  double tokens_cached = 0, tokens_uncached = 0;  // whose keys and values are computed
  double operations_cached = 0, operations_uncached = 0;
};
Generating generating(const PlanModel& model, const CacheDemand& cache, std::int64_t prompt, std::int64_t generated);

}  // namespace quire
