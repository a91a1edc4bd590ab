// The cache's rules one by one; kv_cache_property_test.cpp tries them in any order.
#include <functional>

#include "cache/kv_cache_test_support.h"

namespace quire {
namespace {

using namespace testing_support;

TEST(KvCache, HoldsWhatWasAppended) {
  auto cache = make();
  ASSERT_TRUE(cache->open(7).ok());
  EXPECT_FALSE(cache->open(7).ok());
  const auto tokens = counting(100);
  for (const std::int64_t end : {1, 31, 32, 33, 64, 100}) {
    ASSERT_TRUE(extend(*cache, 7, std::span(tokens).first(static_cast<std::size_t>(end))).ok());
    expect_holds(*cache, 7, std::span(tokens).first(static_cast<std::size_t>(end)));
  }
  EXPECT_FALSE(cache->read(7, 0, 90, 11).ok());
  EXPECT_FALSE(cache->read(7, 2, 0, 1).ok());
}

TEST(KvCache, ForksShareUntilOneWrites) {
  auto cache = make();
  const auto common = counting(40);
  ASSERT_TRUE(cache->open(1).ok());
  ASSERT_TRUE(extend(*cache, 1, common).ok());
  const std::uint64_t alone = cache->stats().held_bytes();
  ASSERT_TRUE(cache->fork(1, 2).ok());
  EXPECT_EQ(cache->stats().held_bytes(), alone);
  EXPECT_EQ(cache->stats().counters.copied_pages, 0u);

  auto left = common, right = common;
  left.push_back(1000);
  right.push_back(2000);
  ASSERT_TRUE(extend(*cache, 1, left).ok());
  EXPECT_EQ(cache->stats().counters.copied_pages, 1u);
  ASSERT_TRUE(extend(*cache, 2, right).ok());
  EXPECT_EQ(cache->stats().counters.copied_pages, 1u) << "the page is the second one's alone by now";
  expect_holds(*cache, 1, left);
  expect_holds(*cache, 2, right);
  cache->release(1);
  expect_holds(*cache, 2, right);
}

// The step is dropped before anything of it was done, not even the copy of the page that is shared.
TEST(KvCache, ADroppedStepLeavesNoTrace) {
  const auto tokens = counting(40);
  const std::function<void(KvCache&)> undoings[] = {
      [](KvCache& cache) { cache.commit(1, {}); },
      [](KvCache& cache) { ASSERT_TRUE(cache.rollback(1, 1000).ok()); },
      [](KvCache& cache) { ASSERT_TRUE(cache.fork(1, 3).ok()); },
      [](KvCache& cache) { cache.park(1); },
      [](KvCache& cache) {
        const StepWant want{1, 1};
        const auto plan = cache.prepare({&want, 1});
        ASSERT_EQ(plan->copies.size(), 1u);
        copy_tokens(cache.layouts()[0], plan->copies[0].page.from, plan->copies[0].page.to, 8);
        cache.commit(1, {});
      },
  };
  for (const auto& undo : undoings) {
    auto cache = make();
    ASSERT_TRUE(cache->open(1).ok() && extend(*cache, 1, tokens).ok() && cache->fork(1, 2).ok());
    const std::uint64_t held = cache->stats().held_bytes();
    const StepWant want{1, 100};
    ASSERT_TRUE(cache->prepare({&want, 1}).ok());
    undo(*cache);
    EXPECT_EQ(cache->stats().held_bytes(), held);
    expect_holds(*cache, 1, tokens);
    ASSERT_TRUE(cache->prepare({&want, 1}).ok());
    ASSERT_TRUE(extend(*cache, 1, counting(140)).ok()) << "append copies for itself";
    expect_holds(*cache, 1, counting(140));
    expect_holds(*cache, 2, tokens);
  }
}

TEST(KvCache, RollbackReachesAnyLength) {
  auto cache = make();
  ASSERT_TRUE(cache->open(1).ok());
  const auto tokens = counting(100);
  ASSERT_TRUE(extend(*cache, 1, tokens).ok());
  for (const std::int64_t length : {99, 64, 63, 33, 1, 0}) {
    EXPECT_EQ(*cache->rollback(1, length), length);
    expect_holds(*cache, 1, std::span(tokens).first(static_cast<std::size_t>(length)));
  }
  EXPECT_FALSE(cache->rollback(1, -1).ok());
  // A named page is never reopened: going on differently leaves what others may find.
  ASSERT_TRUE(extend(*cache, 1, tokens).ok());
  ASSERT_EQ(*cache->rollback(1, 40), 40);
  auto other = std::vector<TokenId>(tokens.begin(), tokens.begin() + 40);
  other.insert(other.end(), 60, 9);
  ASSERT_TRUE(extend(*cache, 1, other).ok());
  ASSERT_TRUE(cache->open(2).ok());
  EXPECT_EQ(cache->reuse(2, tokens), 96);
  expect_holds(*cache, 2, std::span(tokens).first(96));
  expect_holds(*cache, 1, other);
}

TEST(KvCache, LossyRollbackGoesToThePageBorder) {
  auto cache = make({spec(KvFormat::q8)});
  ASSERT_TRUE(cache->open(1).ok());
  const auto tokens = counting(100);
  ASSERT_TRUE(extend(*cache, 1, tokens).ok());
  EXPECT_EQ(*cache->rollback(1, 98), 98) << "the open page is still there";
  EXPECT_EQ(*cache->rollback(1, 70), 64);
  expect_holds(*cache, 1, std::span(tokens).first(64), 0, 0.3f);
}

TEST(KvCache, RejectedTokensLeaveNoTrace) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::q8}) {
    auto cache = make({spec(format)});
    ASSERT_TRUE(cache->open(1).ok());
    const auto draft = counting(70);
    ASSERT_TRUE(extend(*cache, 1, draft, 30).ok());
    ASSERT_EQ(cache->length(1), 30);
    expect_holds(*cache, 1, std::span(draft).first(30));
    EXPECT_EQ(cache->stats().held_bytes(), cache->estimate_bytes(30));
    auto real = std::vector<TokenId>(draft.begin(), draft.begin() + 30);
    real.insert(real.end(), 10, 5);
    ASSERT_TRUE(extend(*cache, 1, real).ok());
    expect_holds(*cache, 1, real, 0, format == KvFormat::q8 ? 0.3f : 0.f);
    EXPECT_EQ(cache->stats().counters.encoded_pages, format == KvFormat::q8 ? 1u : 0u);
  }
}

TEST(KvCache, WindowsGiveTheirPagesBack) {
  auto cache = make({spec(), spec(KvFormat::f16, {0, 40})});
  ASSERT_TRUE(cache->open(1).ok());
  const auto tokens = counting(2000);
  std::uint64_t most = 0;
  for (std::size_t end = 10; end <= tokens.size(); end += 10) {
    ASSERT_TRUE(extend(*cache, 1, std::span(tokens).first(end)).ok());
    most = std::max(most, cache->held_bytes(1) - sequence_bytes(cache->layouts()[0], static_cast<std::int64_t>(end)));
  }
  EXPECT_LE(most, 4u * static_cast<std::uint64_t>(cache->layouts()[1].wide.bytes));
  EXPECT_TRUE(cache->read(1, 0, 0, 100).ok()) << "the full group still has everything";
  EXPECT_FALSE(cache->read(1, 2, 0, 100).ok());
  const auto last = cache->read(1, 2, 1960, 40);
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(last->keys[0], truth(tokens, 1960, 2, 0, 0));
}

TEST(KvCache, SharedLayersReadTheSamePlace) {
  CacheOptions options;
  options.groups = {spec()};
  options.layer_map = {{0, 0}, {0, 1}, {0, 0}};
  options.budget_bytes = 1 << 20;
  auto cache = std::move(*KvCache::create(options));
  ASSERT_TRUE(cache->open(1).ok());
  const std::vector<float> rows(kHeads * kDim, 3.f);
  ASSERT_TRUE(cache->append(1, 0, rows, rows, 1).ok());
  const TokenId token = 5;
  cache->advance(1, {&token, 1});
  EXPECT_EQ(cache->read(1, 2, 0, 1)->keys, rows);
  options.layer_map = {{0, 2}};
  EXPECT_FALSE(KvCache::create(options).ok());
}

}  // namespace
}  // namespace quire
