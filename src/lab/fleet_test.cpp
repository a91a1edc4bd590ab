#include "lab/fleet.h"

#include <gtest/gtest.h>

#include "lab/trace_test_support.h"

namespace quire {
namespace {

FleetOptions options(std::size_t machines, Routing routing, std::size_t shared = 0) {
  FleetOptions o;
  o.machines = machines;
  o.routing = routing;
  o.policy = "lru";
  o.capacity = 100;
  o.shared_capacity = shared;
  o.tokens_per_second = kTraceBlockTokens;  // a block a second
  o.block_bytes = 10;
  return o;
}

// Two chats in turn, each with one block more every time; odd machines' turns would part them.
Trace two_chats() {
  return trace_of({{0, 1}, {10, 11}, {20}, {0, 1, 2}, {10, 11, 12}, {20, 21}, {0, 1, 2, 3}, {10, 11, 12, 13}});
}

TEST(Fleet, RoundRobinForgetsWhereAChatWas) {
  const auto report = simulate(two_chats(), options(2, Routing::round_robin));
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->machines[0].requests, 4u);
  EXPECT_EQ(report->machines[1].requests, 4u);
  EXPECT_EQ(report->local_hits, 2u + 2) << "the third turns, back where the first were";
}

TEST(Fleet, PrefixRoutingFindsIt) {
  const auto report = simulate(two_chats(), options(2, Routing::prefix));
  EXPECT_EQ(report->local_hits, 2u + 2 + 1 + 3 + 3);
  EXPECT_EQ(report->bytes_fetched, 0);
  EXPECT_EQ(report->blocks, 21u);
}

TEST(Fleet, ASharedTierMakesRoutingIrrelevantAtThePriceOfBytes) {
  const auto report = simulate(two_chats(), options(2, Routing::round_robin, 1000));
  EXPECT_EQ(report->local_hits + report->shared_hits, 2u + 2 + 1 + 3 + 3);
  EXPECT_EQ(report->bytes_fetched, 10.0 * static_cast<double>(report->shared_hits));
  EXPECT_EQ(report->bytes_stored, 10.0 * 10) << "every block once";
}

TEST(Fleet, PrefixRoutingSparesTheSharedTier) {
  const auto report = simulate(two_chats(), options(2, Routing::prefix, 1000));
  EXPECT_EQ(report->local_hits, 2u + 2 + 1 + 3 + 3);
  EXPECT_EQ(report->bytes_fetched, 0);
}

TEST(Fleet, OneMachineIsOneCache) {
  const auto one = simulate(two_chats(), options(1, Routing::least_load));
  EXPECT_EQ(one->local_hits, replay(two_chats(), "lru", 100)->hits);
  EXPECT_EQ(one->imbalance, 1);
}

// One long request, then short ones while it is computed.
TEST(Fleet, LeastLoadGoesAroundTheBusy) {
  const Trace trace = trace_of({{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {20}, {30}, {40}});
  const auto balanced = simulate(trace, options(2, Routing::least_load));
  EXPECT_EQ(balanced->machines[0].requests, 1u);
  EXPECT_EQ(balanced->machines[1].requests, 3u);
  EXPECT_EQ(balanced->longest_wait_ms, 0);
  const auto in_turn = simulate(trace, options(2, Routing::round_robin));
  EXPECT_EQ(in_turn->longest_wait_ms, 8000) << "the third waits for the first";
  EXPECT_NEAR(in_turn->imbalance, 11.0 * 2 / 13, 1e-9);
}

TEST(Fleet, NonsenseIsRefused) {
  EXPECT_FALSE(parse_routing("random").ok());
  EXPECT_NE(parse_routing("roundrobin").error().message.find("did you mean round-robin?"), std::string::npos);
  EXPECT_FALSE(simulate(two_chats(), options(0, Routing::prefix)).ok());
  FleetOptions slow = options(2, Routing::prefix);
  slow.tokens_per_second = 0;
  EXPECT_FALSE(simulate(two_chats(), slow).ok());
}

}  // namespace
}  // namespace quire
