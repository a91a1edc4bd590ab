#include "lab/plan_cache.h"

#include <gtest/gtest.h>

#include "lab/plan_test_support.h"

namespace quire {
namespace {

TEST(CacheDemand, WholePagesAreWhatTheLayoutSays) {
  const CacheDemand cache = demand_of(preset("smollm2-135m"));
  EXPECT_EQ(cache.bytes_per_token(), 23040);
  EXPECT_EQ(cache.paged_bytes(32, 1), 32u * 23040) << "a full page";
  EXPECT_EQ(cache.paged_bytes(33, 1), 64u * 23040) << "and one begun";
  EXPECT_EQ(cache.paged_bytes(33, 3), 3u * 64 * 23040);
}

TEST(CacheDemand, OwnWindowsCountOnlyWhereAskedFor) {
  CacheChoice windows;
  windows.own_windows = true;
  const PlanModel gemma = preset("gemma-3-4b");
  const double one_layer = 4 * 256 * 2 * 2;
  EXPECT_EQ(static_cast<double>(demand_of(gemma).bytes(4096, 1)), 34 * 4096 * one_layer);
  EXPECT_EQ(static_cast<double>(demand_of(gemma, "f16", windows).bytes(4096, 1)), (5 * 4096 + 29 * 1024) * one_layer);
  EXPECT_EQ(demand_of(gemma, "f16", windows).bytes(1024, 1), demand_of(gemma).bytes(1024, 1)) << "all is seen";
}

TEST(CacheDemand, ASharedPrefixCountsOnce) {
  CacheChoice half;
  half.shared_prefix = 0.5;
  const PlanModel model = preset("llama-3-8b");
  const CacheDemand cache = demand_of(model, "f16", half);
  const std::uint64_t token = 131072;
  EXPECT_EQ(cache.bytes(4096, 1), 4096 * token);
  EXPECT_EQ(cache.bytes(4096, 10), (2048 + 10 * 2048) * token);
  EXPECT_EQ(cache.paged_bytes(4096, 10), (2048 + 10 * 2048) * token);
  EXPECT_EQ(cache.sequences_within((2048 + 10 * 2048) * token, 4096), 10);
  EXPECT_EQ(cache.paged_sequences_within((2048 + 10 * 2048) * token, 4096), 10);
  EXPECT_EQ(cache.sequences_within((2048 + 10 * 2048) * token - 1, 4096), 9);
}

// A window forgets the prefix, and what is evicted by attention is nobody else's.
TEST(CacheDemand, APrefixIsSharedAsFarAsItIsKept) {
  const PlanModel model = preset("llama-3-8b");
  CacheChoice choice;
  choice.shared_prefix = 0.5;
  choice.settings.policy = "sinks:32+992";
  EXPECT_EQ(demand_of(model, "f16", choice).bytes(4096, 2), (32 + 2 * 992) * 131072u);
  choice.settings.policy = "window:3072";
  EXPECT_EQ(demand_of(model, "f16", choice).bytes(4096, 2), (1024 + 2 * 2048) * 131072u);
  choice.settings.policy = "h2o:1024";
  EXPECT_EQ(demand_of(model, "f16", choice).bytes(4096, 2), 2u * 1024 * 131072);
}

TEST(CacheDemand, LimitsAreTight) {
  const CacheDemand cache = demand_of(preset("llama-3-8b"));
  const std::uint64_t memory = 1'000'000'000;
  const std::int64_t context = cache.context_within(memory, 3);
  EXPECT_LE(cache.bytes(context, 3), memory);
  EXPECT_GT(cache.bytes(context + 1, 3), memory);
  EXPECT_EQ(cache.context_within(0, 1), 0);
  EXPECT_EQ(cache.sequences_within(0, 1), 0);
}

TEST(CacheDemand, TooMuchIsSaid) {
  const CacheDemand cache = demand_of(shape(4096, 4096, 4096, 65536));
  EXPECT_EQ(cache.bytes(kMostPlannedTokens, kMostPlannedSequences), kTooManyBytes);
  EXPECT_EQ(cache.sequences_within(std::uint64_t{1} << 40, kMostPlannedTokens), 0);
}

TEST(CacheDemand, BadChoicesAreRefused) {
  const PlanModel model = preset("gpt-2");
  CacheChoice choice;
  choice.share_layers = 13;
  EXPECT_FALSE(CacheDemand::create(model, choice).ok());
  choice = {};
  choice.shared_prefix = 1.5;
  EXPECT_FALSE(CacheDemand::create(model, choice).ok());
  choice = {};
  choice.settings.type_k = "q3";
  EXPECT_FALSE(CacheDemand::create(model, choice).ok());
  choice = {};
  choice.settings.policy = "lru";
  EXPECT_FALSE(CacheDemand::create(model, choice).ok());
  EXPECT_FALSE(CacheDemand::create(shape(0, 1, 1, 1), {}).ok());
  EXPECT_FALSE(CacheDemand::create(shape(12, 12, 5, 64), {}).ok()) << "5 KV heads cannot serve 12 query heads";
}

}  // namespace
}  // namespace quire
