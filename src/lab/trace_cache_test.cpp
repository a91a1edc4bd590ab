#include "lab/trace_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "lab/trace_test_support.h"

namespace quire {
namespace {

// Chats that come back with more, among others; a few system prompts that many begin with.
Trace chats(int requests, unsigned seed) {
  std::mt19937 random(seed);
  TokenId fresh = 4;
  std::vector<std::vector<TokenId>> open(40), asked;
  for (int i = 0; i < requests; ++i) {
    std::vector<TokenId>& chat = open[random() % open.size()];
    if (chat.empty() || random() % 5 == 0) chat = {static_cast<TokenId>(random() % 4)};
    for (std::uint64_t n = 1 + random() % 6; n > 0; --n) chat.push_back(fresh++);
    asked.push_back(chat);
  }
  return trace_of(asked);
}

// LRU as its rule says, slowly: every block has the time of its last request, deeper ones count as older.
std::uint64_t slow_lru_hits(const Trace& trace, std::size_t capacity) {
  std::map<TokenId, std::pair<std::int64_t, std::int64_t>> last_use;  // (request, -depth)
  std::uint64_t hits = 0;
  std::int64_t now = 0;
  for (const TraceRequest& request : trace.requests) {
    const auto blocks = trace.blocks_of(request);
    hits += static_cast<std::uint64_t>(
        std::ranges::find_if(blocks, [&](TokenId id) { return !last_use.contains(id); }) - blocks.begin());
    ++now;
    for (std::size_t depth = 0; depth < blocks.size(); ++depth) {
      last_use[blocks[depth]] = {now, -static_cast<std::int64_t>(depth)};
    }
    while (last_use.size() > capacity) {
      last_use.erase(std::ranges::min_element(last_use, {}, [](const auto& entry) { return entry.second; }));
    }
  }
  return hits;
}

TEST(Replay, LruIsLru) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    const Trace trace = chats(600, seed);
    for (const std::size_t capacity : {1u, 30u, 100u, 400u, 100000u}) {
      const auto report = replay(trace, "lru", capacity);
      ASSERT_TRUE(report.ok());
      EXPECT_EQ(report->hits, slow_lru_hits(trace, capacity)) << "seed " << seed << ", capacity " << capacity;
    }
  }
}

TEST(Replay, NobodyBeatsForesight) {
  const Trace trace = chats(3000, 5);
  for (const std::size_t capacity : {50u, 200u, 800u}) {
    const std::uint64_t best = replay(trace, "belady", capacity)->hits;
    for (const std::string& policy : eviction_policy_names()) {
      EXPECT_LE(replay(trace, policy, capacity)->hits, best) << policy << " at " << capacity;
    }
    EXPECT_GT(best, replay(trace, "lru", capacity)->hits);
  }
}

// All ways to choose what stays, for a trace so short that they can be tried.
std::uint64_t best_hits(const Trace& trace, std::size_t from, std::set<TokenId> held, std::size_t capacity) {
  if (from == trace.requests.size()) return 0;
  const auto blocks = trace.blocks_of(trace.requests[from]);
  const auto missed = std::ranges::find_if(blocks, [&](TokenId id) { return !held.contains(id); });
  held.insert(blocks.begin(), blocks.end());
  std::vector<TokenId> all(held.begin(), held.end());
  std::uint64_t best = 0;
  for (unsigned mask = 0; mask < 1u << all.size(); ++mask) {
    std::set<TokenId> kept;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (mask >> i & 1) kept.insert(all[i]);
    }
    if (kept.size() == std::min(capacity, all.size()))
      best = std::max(best, best_hits(trace, from + 1, kept, capacity));
  }
  return best + static_cast<std::uint64_t>(missed - blocks.begin());
}

TEST(Replay, ForesightIsTheBestThereIs) {
  const Trace trace = trace_of({{0, 1, 2}, {3, 4}, {0, 1}, {3, 5}, {0, 1, 2}, {3, 4}});
  for (const std::size_t capacity : {1u, 2u, 3u, 4u}) {
    EXPECT_EQ(replay(trace, "belady", capacity)->hits, best_hits(trace, 0, {}, capacity)) << capacity;
  }
}

TEST(Replay, WithRoomForAllEverythingReturns) {
  const Trace trace = chats(1000, 7);
  for (const std::string& policy : trace_policy_names()) {
    const auto report = replay(trace, policy, trace.distinct);
    EXPECT_EQ(report->hits, trace.ids.size() - trace.distinct) << policy;
    EXPECT_EQ(report->evictions, 0u) << policy;
  }
}

TEST(Replay, CapacityIsKept) {
  const Trace trace = chats(300, 9);
  for (const std::string& policy : eviction_policy_names()) {
    TraceCache cache(std::move(*make_eviction_policy(policy)), 25);
    for (const TraceRequest& request : trace.requests) {
      const auto blocks = trace.blocks_of(request);
      const std::size_t resident = cache.resident(blocks);
      EXPECT_EQ(cache.request(blocks), resident) << policy;
      EXPECT_LE(cache.blocks(), 25u) << policy;
    }
  }
}

TEST(Replay, TheBuiltInPolicyIsTheEngines) {
  const auto report = replay(chats(10, 1), "", 100);
  EXPECT_EQ(report->policy, eviction_policy_names().front());
}

TEST(Replay, UnknownPoliciesGetTheNearest) {
  const auto report = replay(chats(10, 1), "s3fifo", 100);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().message.find("did you mean s3-fifo?"), std::string::npos) << report.error().message;
}

// Some traces reuse an id under another prefix: what follows cannot be shared, and nothing breaks.
TEST(Replay, AnIdUnderTwoPrefixes) {
  const auto report = replay(trace_of({{0, 1, 2}, {3, 1, 4}, {3, 1, 4}}), "lru", 10);
  EXPECT_EQ(report->hits, 1u);
}

}  // namespace
}  // namespace quire
