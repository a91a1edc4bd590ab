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

// Fills the cache with sequence 1 and returns the tokens it holds.
std::vector<TokenId> fill(KvCache& cache) {
  std::vector<TokenId> tokens = counting(32);
  EXPECT_TRUE(cache.open(1).ok());
  while (extend(cache, 1, tokens).ok()) tokens = counting(std::ssize(tokens) + 32);
  tokens.resize(tokens.size() - 32);
  return tokens;
}

TEST(KvCacheEvict, AnEvictionWithoutMemoryChangesNothing) {
  auto cache = make({spec()}, 1 << 15);
  const std::vector<TokenId> tokens = fill(*cache);
  ASSERT_TRUE(cache->fork(1, 3).ok()) << "its pages are another's too: none can be filled anew";
  EXPECT_FALSE(cache->evict(1, {64, 40}, **parse_policy("h2o:64")).ok());
  cache->release(3);
  ASSERT_EQ(*cache->rollback(1, 64), 64);
  ASSERT_TRUE(cache->drop_front(1, 31).ok()) << "no whole page";
  ASSERT_TRUE(extend(*cache, 1, tokens).ok());
  cache->release(1);
  ASSERT_TRUE(cache->open(2).ok());
  EXPECT_EQ(cache->reuse(2, counting(4000)), std::ssize(tokens)) << "its pages are still named";
}

TEST(KvCacheEvict, WhatIsKeptFitsWhereItLay) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::q8}) {
    auto roomy = make({spec(format)}), full = make({spec(format)}, 1 << 15);
    const auto policy = std::move(*parse_policy("h2o:64"));
    const std::vector<TokenId> tokens = fill(*full);
    ASSERT_TRUE(roomy->open(1).ok() && extend(*roomy, 1, tokens).ok());
    const auto length = std::ssize(tokens);
    // The later half is looked at, by head 1 a page later.
    std::vector<float> sums(static_cast<std::size_t>(2 * kHeads * length));
    for (std::int64_t i = 0; i < std::ssize(sums); ++i) {
      sums[static_cast<std::size_t>(i)] = i % length > length / 2 + (i / length % kHeads) * 32 ? 1.f : 0.f;
    }
    const std::int64_t first = length - 32, keep = length * 3 / 4;
    for (KvCache* cache : {roomy.get(), full.get()}) {
      cache->add_scores(1, sums);
      ASSERT_TRUE(cache->evict(1, {first, keep}, *policy).ok()) << info(format).name;
      EXPECT_EQ(cache->retention_state(1, length).kept, keep);
    }
    const auto bytes_kept = [&](KvCache& cache) {
      const KvPageLayout& page = cache.layouts()[0].lossless ? cache.layouts()[0].wide : cache.layouts()[0].packed;
      const auto plan = cache.prepare(std::vector<StepWant>{{1, 0}});
      std::vector<std::byte> bytes;
      for (std::int64_t i = 0; i < keep / kPageTokens; ++i) {
        bytes.resize(bytes.size() + static_cast<std::size_t>(page.bytes));
        take_out(page, plan->tables[0][0].kept[i], bytes.data() + static_cast<std::ptrdiff_t>(i * page.bytes));
      }
      return bytes;
    };
    EXPECT_EQ(bytes_kept(*roomy), bytes_kept(*full)) << info(format).name;
  }
}

}  // namespace
}  // namespace quire
