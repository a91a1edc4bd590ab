// What sequences find of each other.
#include "cache/kv_cache_test_support.h"

namespace quire {
namespace {

using namespace testing_support;

TEST(KvCachePrefix, APrefixIsFoundAndVerified) {
  auto cache = make();
  ASSERT_TRUE(cache->open(1).ok());
  const auto tokens = counting(100);
  ASSERT_TRUE(extend(*cache, 1, tokens).ok());
  cache->release(1);
  EXPECT_GT(cache->stats().cached_bytes, 0u);

  ASSERT_TRUE(cache->open(2).ok());
  EXPECT_EQ(cache->reuse(2, std::span(tokens).first(96)), 95) << "one token is left to compute";
  expect_holds(*cache, 2, std::span(tokens).first(95));
  auto longer = tokens;
  longer[70] = 5;  // differs within the third page: what agrees of it is shared as an open page
  ASSERT_TRUE(cache->open(3).ok());
  EXPECT_EQ(cache->reuse(3, longer), 70);
  ASSERT_TRUE(extend(*cache, 3, longer).ok());
  expect_holds(*cache, 3, longer);
  expect_holds(*cache, 2, std::span(tokens).first(95));

  ASSERT_TRUE(cache->open(4, {"another tenant", {}}).ok());
  EXPECT_EQ(cache->reuse(4, tokens), 0);
}

TEST(KvCachePrefix, PoliciesShareWhatTheyDoNotAffect) {
  auto cache = make();
  const auto tokens = counting(300);
  const SequenceOptions streaming{{}, {4, 66}}, window{{}, {0, 100}};
  ASSERT_TRUE(cache->open(1, streaming).ok() && extend(*cache, 1, tokens).ok());
  EXPECT_EQ(cache->held_bytes(1), cache->estimate_bytes(300, streaming.visible));
  ASSERT_TRUE(cache->open(2).ok());
  EXPECT_EQ(cache->reuse(2, tokens), 64) << "of what sees less, the pages before it does";
  ASSERT_TRUE(extend(*cache, 2, tokens).ok());
  ASSERT_TRUE(cache->open(3, window).ok());
  EXPECT_EQ(cache->reuse(3, tokens), 100) << "of what sees more, up to where this one begins to see less";
  expect_holds(*cache, 3, std::span(tokens).first(100));
  ASSERT_TRUE(cache->fork(1, 4).ok());
  EXPECT_FALSE(cache->open(5, {{}, {4, 0}}).ok());
  EXPECT_FALSE(cache->contains(5));
}

TEST(KvCachePrefix, LossyPrefixesAreWholePages) {
  auto cache = make({spec(KvFormat::q4)});
  ASSERT_TRUE(cache->open(1).ok());
  const auto tokens = counting(100);
  ASSERT_TRUE(extend(*cache, 1, tokens).ok());
  ASSERT_TRUE(cache->open(2).ok());
  EXPECT_EQ(cache->reuse(2, tokens), 96);
  ASSERT_TRUE(cache->open(3).ok());
  EXPECT_EQ(cache->reuse(3, std::span(tokens).first(80)), 64);
}

TEST(KvCachePrefix, WindowPagesAreFoundAtCheckpointsOnly) {
  auto cache = make({spec(), spec(KvFormat::f16, {0, 40})});
  const auto tokens = counting(300);
  ASSERT_TRUE(cache->open(1).ok());
  ASSERT_TRUE(extend(*cache, 1, std::span(tokens).first(130)).ok());
  cache->checkpoint(1);
  ASSERT_TRUE(extend(*cache, 1, tokens).ok());
  cache->release(1);
  ASSERT_TRUE(cache->open(2).ok());
  EXPECT_EQ(cache->reuse(2, tokens), 128);
}

TEST(KvCachePrefix, TwinsBelongToTheResumeSet) {
  KvGroupSpec s = spec(KvFormat::q8);
  s.recent_pages = 1;
  s.sink_pages = 1;
  auto cache = make({s});
  const auto tokens = counting(300);
  ASSERT_TRUE(cache->open(1).ok());
  ASSERT_TRUE(extend(*cache, 1, std::span(tokens).first(130)).ok());
  cache->checkpoint(1);
  ASSERT_TRUE(extend(*cache, 1, tokens).ok());
  EXPECT_EQ(cache->held_bytes(1), cache->estimate_bytes(300));
  cache->release(1);
  ASSERT_TRUE(cache->open(2).ok());
  EXPECT_EQ(cache->reuse(2, tokens), 128);
  EXPECT_EQ(cache->held_bytes(2), cache->estimate_bytes(128));
}

TEST(KvCachePrefix, WindowsNarrowerThanWhatElseIsKept) {
  // Of a window of one token the next query sees nothing, but it needs the page to write in.
  auto narrow = make({spec(), spec(KvFormat::f16, {0, 1})});
  const auto tokens = counting(300);
  ASSERT_TRUE(narrow->open(1).ok() && extend(*narrow, 1, std::span(tokens).first(100)).ok());
  ASSERT_TRUE(narrow->open(2).ok());
  EXPECT_EQ(narrow->reuse(2, std::span(tokens).first(80)), 64);
  ASSERT_TRUE(extend(*narrow, 2, std::span(tokens).first(80)).ok());
  // Twins that left with the window are not waited for.
  KvGroupSpec recent = spec(KvFormat::q8, {0, 20});
  recent.recent_pages = 3;
  auto twins = make({spec(), recent});
  ASSERT_TRUE(twins->open(1).ok() && extend(*twins, 1, std::span(tokens).first(200)).ok());
  ASSERT_TRUE(extend(*twins, 1, std::span(tokens).first(290)).ok());
  twins->checkpoint(1);
  ASSERT_TRUE(twins->open(2).ok());
  EXPECT_EQ(twins->reuse(2, tokens), 288);
}

}  // namespace
}  // namespace quire
