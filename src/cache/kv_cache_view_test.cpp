// What people are shown of a cache is what it holds.
#include <algorithm>
#include <map>

#include "cache/kv_cache_test_support.h"

namespace quire {
namespace {

using namespace testing_support;
using State = CacheView::State;

std::map<State, int> by_state(const CacheView& view) {
  std::map<State, int> counts;
  for (const CacheView::Page& page : view.pages) ++counts[page.state];
  return counts;
}

TEST(KvCacheView, EveryPageHasAState) {
  auto cache = make();
  EXPECT_TRUE(cache->view().pages.empty());
  const auto tokens = counting(100);
  ASSERT_TRUE(cache->open(1).ok() && extend(*cache, 1, tokens).ok());
  ASSERT_TRUE(cache->fork(1, 2).ok());
  auto longer = tokens;
  longer.resize(130, 7);
  ASSERT_TRUE(extend(*cache, 2, longer).ok());

  CacheView view = cache->view();
  auto counts = by_state(view);
  EXPECT_EQ(counts[State::shared], 3) << "the pages before the fork";
  EXPECT_EQ(counts[State::open], 2);
  EXPECT_EQ(counts[State::sealed], 1) << "filled by the second after the fork";
  EXPECT_EQ(counts[State::cached], 0);
  std::uint64_t bytes = 0;
  for (const CacheView::Page& page : view.pages) {
    if (page.state == State::free) continue;
    bytes += page.bytes;
    EXPECT_EQ(page.sequences.size(), page.state == State::shared ? 2u : 1u);
    EXPECT_EQ(page.named, page.state != State::open);
    if (page.state != State::open) {
      EXPECT_EQ(page.tokens, kPageTokens);
    }
  }
  EXPECT_EQ(bytes, cache->stats().held_bytes());
  ASSERT_EQ(view.sequences.size(), 2u);
  EXPECT_EQ(view.sequences[0].tokens, 100);
  EXPECT_EQ(view.sequences[0].bytes, cache->held_bytes(1));
  EXPECT_EQ(view.sequences[1].shared_bytes, view.sequences[0].shared_bytes);
  EXPECT_LT(view.sequences[0].shared_bytes, view.sequences[0].bytes);

  cache->clear();
  view = cache->view();
  counts = by_state(view);
  EXPECT_EQ(counts[State::cached], 4);
  EXPECT_EQ(counts[State::open] + counts[State::sealed] + counts[State::shared], 0);
  EXPECT_TRUE(view.sequences.empty());
}

TEST(KvCacheView, PrefixesFormATree) {
  auto cache = make();
  const auto tokens = counting(128);
  auto other = tokens;
  other[70] = 1000;
  ASSERT_TRUE(cache->open(1).ok() && extend(*cache, 1, tokens).ok());
  ASSERT_TRUE(cache->open(2).ok());
  EXPECT_EQ(cache->reuse(2, other), 70);
  ASSERT_TRUE(extend(*cache, 2, other).ok());
  ASSERT_TRUE(cache->open(3, {"another tenant", {}}).ok() && extend(*cache, 3, std::span(tokens).first(40)).ok());
  cache->release(2);

  const CacheView view = cache->view();
  ASSERT_EQ(view.prefixes.size(), 4u);
  const auto find = [&](std::int64_t tokens_of, bool in_use, bool has_parent) {
    const auto at = std::ranges::find_if(view.prefixes, [&](const CacheView::Prefix& p) {
      return p.tokens == tokens_of && p.in_use == in_use && (p.parent >= 0) == has_parent;
    });
    return at == view.prefixes.end() ? nullptr : &*at;
  };
  const auto* common = find(64, false, false);
  const auto* first = find(64, true, true);
  const auto* second = find(64, false, true);
  const auto* apart = find(32, true, false);
  ASSERT_TRUE(common != nullptr && first != nullptr && second != nullptr && apart != nullptr);
  EXPECT_EQ(first->parent, common->id);
  EXPECT_EQ(second->parent, common->id);
  EXPECT_EQ(common->uses, 2u);
  EXPECT_EQ(second->uses, 1u);
  EXPECT_EQ(common->tenant, second->tenant);
  EXPECT_NE(common->tenant, apart->tenant);
  EXPECT_EQ(common->tenant.size(), 8u);
  EXPECT_GE(common->idle_s, 0);
  EXPECT_LT(common->idle_s, 60);
}

TEST(KvCacheView, FindingTellsWhatReuseWouldDo) {
  auto cache = make();
  const auto tokens = counting(100);
  ASSERT_TRUE(cache->open(1).ok() && extend(*cache, 1, tokens).ok());
  const auto asked = cache->stats().counters.asked_tokens;
  EXPECT_EQ(cache->find(tokens).tokens, 96);
  EXPECT_EQ(cache->find(std::span(tokens).first(80)).tokens, 79);
  EXPECT_EQ(cache->find(tokens, {"another tenant", {}}).tokens, 0);
  EXPECT_EQ(cache->find({}).tokens, 0);
  EXPECT_EQ(cache->stats().counters.asked_tokens, asked) << "looking counts as asking";
  const auto narrow = cache->find(tokens, {{}, {0, 40}});
  EXPECT_EQ(narrow.tokens, 40);
  EXPECT_TRUE(narrow.shares_no_more);
  cache->release(1);
  cache->forget_unused();
  EXPECT_EQ(cache->find(tokens).tokens, 0);
  EXPECT_TRUE(cache->find(tokens).evicted);
}

}  // namespace
}  // namespace quire
