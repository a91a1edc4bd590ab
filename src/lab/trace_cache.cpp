#include "lab/trace_cache.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/fail.h"
#include "lab/foresight.h"
#include "lab/table_text.h"

namespace quire {
namespace {

constexpr std::string_view kBelady = "belady";

// A trace's ids are names of whole prefixes already, and dense: good keys as they are.
Digest named(std::uint64_t number) {
  Digest digest{};
  std::memcpy(digest.data(), &number, sizeof(number));
  return digest;
}

}  // namespace

TraceCache::TraceCache(std::unique_ptr<EvictionPolicy> policy, std::size_t capacity)
    : index_({{GroupNeed::Kind::full, 0}}, std::move(policy), /*block_tokens=*/1), capacity_(capacity) {}

PrefixHit TraceCache::look_up(std::span<const TokenId> blocks) {
  names_.clear();
  tokens_.assign(blocks.begin(), blocks.end());
  tokens_.push_back(-1);
  Digest before = named(~std::uint64_t{0});
  for (const TokenId id : blocks) {
    const Digest chain = named(static_cast<std::uint64_t>(id));
    names_.push_back({before, chain});
    before = chain;
  }
  return index_.lookup(std::span<const BlockName>(names_), tokens_);
}

std::size_t TraceCache::resident(std::span<const TokenId> blocks) { return look_up(blocks).blocks.size(); }

std::size_t TraceCache::request(std::span<const TokenId> blocks) {
  const PrefixHit hit = look_up(blocks);
  index_.admit(hit, blocks.size());
  const std::size_t hits = hit.blocks.size();
  BlockId last = hits > 0 ? hit.blocks.back() : kNoBlock;
  for (std::size_t i = hits; i < blocks.size(); ++i) {
    const BlockId block = index_.insert(last, names_[i], blocks.subspan(i, 1), 0).block;
    if (block == kNoBlock) break;  // the trace gave this id to another prefix before
    last = block;
  }
  if (hits > 0) index_.unpin(hit.blocks.back());
  if (index_.blocks() > capacity_) index_.evict(index_.blocks() - capacity_);
  return hits;
}

std::vector<std::string> trace_policy_names() {
  std::vector<std::string> names = eviction_policy_names();
  names.emplace_back(kBelady);
  return names;
}

Result<std::string> check_trace_policy(std::string_view policy) {
  const std::vector<std::string> names = trace_policy_names();
  if (policy.empty()) return names.front();
  if (std::ranges::find(names, policy) != names.end()) return std::string(policy);
  return fail(Errc::invalid_argument, "no eviction policy '{}'; {}", policy, suggestion(policy, names));
}

Result<ReplayReport> replay(const Trace& trace, std::string_view policy, std::size_t capacity) {
  ReplayReport report;
  QUIRE_TRY(report.policy, check_trace_policy(policy));
  report.capacity = capacity;
  report.requests = trace.requests.size();
  report.blocks = trace.ids.size();
  Foresight* foresight = nullptr;
  std::unique_ptr<EvictionPolicy> eviction;
  if (report.policy == kBelady) {
    auto knows_all = std::make_unique<Foresight>(trace);
    foresight = knows_all.get();
    eviction = std::move(knows_all);
  } else {
    QUIRE_TRY(eviction, make_eviction_policy(report.policy));
  }
  const auto start = std::chrono::steady_clock::now();
  TraceCache cache(std::move(eviction), capacity);
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    if (foresight != nullptr) foresight->begin_request(i);
    report.hits += cache.request(trace.blocks_of(trace.requests[i]));
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.evictions = cache.evictions();
  return report;
}

}  // namespace quire
