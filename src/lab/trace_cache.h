// A cache without a model: the engine's own prefix index and eviction policies, fed with a trace's
// blocks. A hit is what Mooncake calls one: of a request's blocks, the leading run that is there
// when it arrives. Afterwards all its blocks are there, and the policy evicts down to the capacity.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/prefix_index.h"
#include "lab/trace_file.h"

namespace quire {

class TraceCache {
 public:
  // capacity: in blocks.
  TraceCache(std::unique_ptr<EvictionPolicy> policy, std::size_t capacity);

  // How many leading blocks are there; nothing changes.
  std::size_t resident(std::span<const TokenId> blocks);
  // A request arrives, is computed, and others make room for it. Returns its hits.
  std::size_t request(std::span<const TokenId> blocks);

  std::uint64_t evictions() const { return index_.stats().evicted; }
  std::size_t blocks() const { return index_.blocks(); }

 private:
  PrefixHit look_up(std::span<const TokenId> blocks);

  PrefixIndex index_;
  std::size_t capacity_;
  std::vector<BlockName> names_;  // of the request at hand
  std::vector<TokenId> tokens_;   // a block is one token here; and one more, which is left to compute
};

// Names of the engine's policies, the built-in one first, and "belady": what the best could do
// that knew the future.
std::vector<std::string> trace_policy_names();

struct ReplayReport {
  std::size_t requests = 0;
  std::uint64_t blocks = 0, hits = 0, evictions = 0;
  std::string policy;
  std::size_t capacity = 0;
  double seconds = 0;

  double hit_rate() const { return blocks > 0 ? static_cast<double>(hits) / static_cast<double>(blocks) : 0; }
};

// policy "": the built-in one.
Result<ReplayReport> replay(const Trace& trace, std::string_view policy, std::size_t capacity);

// Names with what to do about a wrong one.
Result<std::string> check_trace_policy(std::string_view policy);

}  // namespace quire
