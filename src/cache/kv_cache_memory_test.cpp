// What the cache takes, what it counts, and what it does when there is no more.
#include "cache/kv_cache_test_support.h"

namespace quire {
namespace {

using namespace testing_support;

TEST(KvCacheMemory, AReservationSucceedsWholeOrChangesNothing) {
  auto cache = make({spec()}, 1 << 17);
  const auto tokens = counting(100000);
  ASSERT_TRUE(cache->open(1).ok());
  ASSERT_TRUE(cache->open(2).ok());
  ASSERT_TRUE(extend(*cache, 1, std::span(tokens).first(40)).ok());
  const std::uint64_t held = cache->stats().held_bytes();
  const StepWant wants[] = {{1, 10}, {2, 90000}};
  const auto plan = cache->prepare(wants);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, Errc::out_of_memory);
  EXPECT_EQ(cache->stats().held_bytes(), held);
  expect_holds(*cache, 1, std::span(tokens).first(40));
}

TEST(KvCacheMemory, CachedPagesMakeRoom) {
  auto cache = make({spec()}, 1 << 17);
  for (SequenceId id = 0; id < 50; ++id) {
    const auto tokens = counting(200, static_cast<TokenId>(1000 * id));
    ASSERT_TRUE(cache->open(id).ok());
    ASSERT_TRUE(extend(*cache, id, tokens).ok()) << id;
    expect_holds(*cache, id, tokens);
    EXPECT_LE(cache->stats().reserved_bytes, 1u << 17);
    cache->release(id);
  }
  EXPECT_GT(cache->stats().counters.evicted_pages, 0u);
}

TEST(KvCacheMemory, WhatCannotFitEvictsNothing) {
  auto cache = make({spec()}, 1 << 17);
  const auto tokens = counting(100000);
  ASSERT_TRUE(cache->open(1).ok() && extend(*cache, 1, std::span(tokens).first(600)).ok());
  cache->release(1);
  const std::uint64_t cached = cache->stats().cached_bytes;
  ASSERT_TRUE(cache->open(2).ok());
  const StepWant too_much{2, 2000}, enough{2, 800};
  EXPECT_FALSE(cache->could_prepare({&too_much, 1}));
  const auto refused = cache->prepare({&too_much, 1});
  ASSERT_FALSE(refused.ok());
  for (const char* part : {"258048 bytes", "budget of 131072", "--cache-bytes"}) {
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  }
  EXPECT_EQ(cache->stats().cached_bytes, cached);
  EXPECT_TRUE(cache->could_prepare({&enough, 1}));
  EXPECT_EQ(cache->stats().cached_bytes, cached) << "asking changes nothing";
  ASSERT_TRUE(cache->prepare({&enough, 1}).ok());
  EXPECT_LT(cache->stats().cached_bytes, cached);
  EXPECT_TRUE(cache->could_prepare({&enough, 1})) << "what it has prepared would be undone first";
}

TEST(KvCacheMemory, ParkedSequencesMakeRoomWhereTheStrategySaysSo) {
  for (const bool adaptive : {false, true}) {
    CacheOptions options;
    options.groups = {spec()};
    options.budget_bytes = 1 << 17;
    if (adaptive) options.strategy.kind = CacheStrategy::Kind::adaptive;
    auto cache = std::move(*KvCache::create(options));
    const auto tokens = counting(1000);
    ASSERT_TRUE(cache->open(1).ok() && extend(*cache, 1, std::span(tokens).first(700)).ok());
    ASSERT_TRUE(cache->open(2).ok());
    const StepWant want{2, 700}, both[] = {{1, 0}, want};
    EXPECT_FALSE(cache->could_prepare({&want, 1}));
    cache->park(1);
    EXPECT_EQ(cache->could_prepare({&want, 1}), adaptive);
    EXPECT_FALSE(cache->could_prepare(both)) << "it is wanted itself";
    EXPECT_EQ(cache->prepare({&want, 1}).ok(), adaptive);
    EXPECT_EQ(cache->contains(1), !adaptive);
  }
}

TEST(KvCacheMemory, TheEstimateIsWhatTheAllocatorCounts) {
  for (const KvFormatInfo& format : kv_formats()) {
    for (const std::int64_t recent : {0, 2}) {
      KvGroupSpec s = spec(format.format);
      s.sink_pages = 1;
      s.recent_pages = recent;
      auto cache = make({s, spec(format.format, {0, 40})});
      const KvVisibility visible{4, 50};
      ASSERT_TRUE(cache->open(1, {{}, visible}).ok());
      const auto tokens = counting(333);
      for (const std::size_t end : {1u, 31u, 32u, 33u, 64u, 100u, 320u, 333u}) {
        ASSERT_TRUE(extend(*cache, 1, std::span(tokens).first(end)).ok());
        EXPECT_EQ(cache->held_bytes(1), cache->estimate_bytes(static_cast<std::int64_t>(end), visible))
            << format.name << " " << end;
      }
    }
  }
}

TEST(KvCacheMemory, PagesThatAreNoWholeCacheLinesAreCountedAsTheyAre) {
  KvGroupSpec odd = spec(KvFormat::k4);
  odd.layers = odd.kv_heads = 1;
  auto cache = make({odd});
  const std::vector<float> rows(40 * kDim, 1.f);
  ASSERT_TRUE(cache->open(1).ok() && cache->append(1, 0, rows, rows, 40).ok());
  cache->advance(1, counting(40));
  EXPECT_EQ(cache->stats().cached_bytes, 0u) << "the sequence holds all there is";
  EXPECT_EQ(cache->pool_counters().used_bytes, cache->estimate_bytes(40));
}

}  // namespace
}  // namespace quire
