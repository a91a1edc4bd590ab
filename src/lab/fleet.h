// A trace on several machines, each with a cache of its own, and a tier behind them that all share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lab/trace_cache.h"

namespace quire {

enum class Routing : std::uint8_t {
  prefix,       // where the prompt would be done first: waiting, and computing what the cache there lacks
  round_robin,  // one after the other
  least_load,   // where waiting is shortest
};

Result<Routing> parse_routing(std::string_view name);
std::string_view name(Routing routing);

struct FleetOptions {
  std::size_t machines = 2;
  Routing routing = Routing::prefix;
  std::string policy;               // of every cache; "": the built-in one
  std::size_t capacity = 0;         // of each machine, in blocks
  std::size_t shared_capacity = 0;  // of the tier behind them; 0: there is none
  double tokens_per_second = 8000;  // of prompts, that a machine computes
  double block_bytes = 0;
};

struct MachineReport {
  std::uint64_t requests = 0, blocks = 0, local_hits = 0, shared_hits = 0;
  double busy_ms = 0;
  std::uint64_t computed() const { return blocks - local_hits - shared_hits; }
};

struct FleetReport {
  std::vector<MachineReport> machines;
  std::uint64_t blocks = 0, local_hits = 0, shared_hits = 0, stored = 0, evictions = 0;  // in blocks
  double bytes_fetched = 0, bytes_stored = 0;    // from the shared tier, and to it
  double mean_wait_ms = 0, longest_wait_ms = 0;  // until a machine begins with a request
  // The busiest machine's work by the mean's: 1 where all work alike.
  double imbalance = 1;
  double seconds = 0;

  double hit_rate() const {
    return blocks > 0 ? static_cast<double>(local_hits + shared_hits) / static_cast<double>(blocks) : 0;
  }
};

Result<FleetReport> simulate(const Trace& trace, const FleetOptions& options);

}  // namespace quire
