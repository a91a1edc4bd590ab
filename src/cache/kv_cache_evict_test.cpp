// Letting tokens go.
#include "cache/kv_cache_test_support.h"

namespace quire {
namespace {

using namespace testing_support;

TEST(KvCacheEvict, EvictionKeepsWhatWasLookedAt) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::q8}) {
    auto cache = make({spec(format)});
    const auto policy = std::move(*parse_policy("h2o:64"));
    const auto tokens = counting(130);
    ASSERT_TRUE(cache->open(1).ok());
    ASSERT_TRUE(extend(*cache, 1, tokens).ok());
    // Every third token is looked at, in head 1 those after them.
    std::vector<float> sums(2 * kHeads * 130);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = (i % 130 + i / 130) % 3 == 0 ? 1.f : 0.f;
    cache->add_scores(1, sums);
    const auto eviction = policy->evict(cache->retention_state(1, 130));
    ASSERT_TRUE(eviction);
    EXPECT_EQ(eviction->first_position, 96);
    EXPECT_EQ(eviction->keep, 32);
    const std::uint64_t before = cache->held_bytes(1);
    ASSERT_TRUE(cache->evict(1, *eviction, *policy).ok());
    EXPECT_LT(cache->held_bytes(1), before);
    EXPECT_EQ(cache->stats().counters.evicted_tokens, 64u);
    EXPECT_FALSE(cache->read(1, 0, 95, 1).ok());
    EXPECT_TRUE(cache->read(1, 0, 96, 34).ok());
    const RetentionState state = cache->retention_state(1, 130);
    EXPECT_EQ(state.kept, 32);
    // Nothing of it may be found by others.
    ASSERT_TRUE(cache->open(2).ok());
    cache->release(1);
  }
}

TEST(KvCacheEvict, TokensNobodyScoredAreEvictedFirst) {
  auto cache = make();
  const auto policy = std::move(*parse_policy("h2o:64"));
  ASSERT_TRUE(cache->open(1).ok() && extend(*cache, 1, counting(130)).ok());
  ASSERT_TRUE(cache->evict(1, {96, 40}, *policy).ok());
  // What lies before a front that is dropped is gone for good, kept or not.
  ASSERT_TRUE(cache->drop_front(1, 50).ok());
  EXPECT_EQ(cache->retention_state(1, 130).kept, 40);
  ASSERT_TRUE(cache->drop_front(1, 96).ok());
  EXPECT_EQ(cache->retention_state(1, 130).kept, 0);
  ASSERT_TRUE(extend(*cache, 1, counting(150)).ok() && cache->evict(1, {128, 5}, *policy).ok());
}

TEST(KvCacheEvict, AnEvictionWithoutMemoryChangesNothing) {
  auto cache = make({spec()}, 1 << 15);
  const auto tokens = counting(4000);
  std::size_t length = 32;
  ASSERT_TRUE(cache->open(1).ok());
  while (extend(*cache, 1, std::span(tokens).first(length)).ok()) length += 32;
  length -= 32;
  EXPECT_FALSE(cache->evict(1, {64, 40}, **parse_policy("h2o:64")).ok());
  ASSERT_EQ(*cache->rollback(1, 64), 64);
  ASSERT_TRUE(cache->drop_front(1, 31).ok()) << "no whole page";
  ASSERT_TRUE(extend(*cache, 1, std::span(tokens).first(length)).ok());
  cache->release(1);
  ASSERT_TRUE(cache->open(2).ok());
  EXPECT_EQ(cache->reuse(2, tokens), static_cast<std::int64_t>(length)) << "its pages are still named";
}

}  // namespace
}  // namespace quire
