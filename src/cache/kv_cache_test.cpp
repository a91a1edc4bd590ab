// The cache's rules one by one; kv_cache_property_test.cpp tries them in any order.
#include "cache/kv_cache.h"

#include <gtest/gtest.h>

#include <numeric>

namespace quire {
namespace {

constexpr std::int64_t kHeads = 2, kDim = 8;

KvGroupSpec spec(KvFormat format = KvFormat::f16, KvVisibility visible = {}) {
  KvGroupSpec s;
  s.layers = 2;
  s.kv_heads = kHeads;
  s.key_dim = s.value_dim = kDim;
  s.keys = s.values = format;
  s.visible = visible;
  return s;
}

std::unique_ptr<KvCache> make(std::vector<KvGroupSpec> groups = {spec()}, std::uint64_t budget = 1 << 22) {
  CacheOptions options;
  options.groups = std::move(groups);
  options.budget_bytes = budget;
  options.poison = true;
  return std::move(*KvCache::create(options));
}

// What the model would compute for a token: a small number that every earlier token changes.
float truth(std::span<const TokenId> tokens, std::int64_t position, std::int64_t layer, std::int64_t head,
            std::int64_t d) {
  std::uint32_t hash = 17;
  for (std::int64_t i = 0; i <= position; ++i) {
    hash = hash * 31 + static_cast<std::uint32_t>(tokens[static_cast<std::size_t>(i)]);
  }
  hash = (hash ^ static_cast<std::uint32_t>(layer * 7 + head * 3 + d * 5)) * 2654435761u;
  return static_cast<float>(hash >> 25) - 64;
}

std::vector<TokenId> counting(std::int64_t count, TokenId from = 0) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

// Computes and commits what `all` has beyond the sequence; the first `accepted` of it stay.
Result<void> extend(KvCache& cache, SequenceId id, std::span<const TokenId> all, std::int64_t accepted = -1) {
  const std::int64_t from = cache.length(id), count = std::ssize(all) - from;
  for (std::int64_t layer = 0; layer < std::ssize(cache.layer_map()); ++layer) {
    std::vector<float> rows;
    for (std::int64_t p = from; p < std::ssize(all); ++p) {
      for (std::int64_t h = 0; h < kHeads; ++h) {
        for (std::int64_t d = 0; d < kDim; ++d) rows.push_back(truth(all, p, layer, h, d));
      }
    }
    auto appended = cache.append(id, layer, rows, rows, count);
    if (!appended.ok()) return appended;
  }
  cache.advance(id,
                all.subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(accepted < 0 ? count : accepted)));
  return {};
}

void expect_holds(const KvCache& cache, SequenceId id, std::span<const TokenId> tokens, std::int64_t from = 0,
                  float tolerance = 0) {
  ASSERT_EQ(cache.length(id), std::ssize(tokens));
  for (std::int64_t layer = 0; layer < std::ssize(cache.layer_map()); ++layer) {
    const auto read = cache.read(id, layer, from, std::ssize(tokens) - from);
    ASSERT_TRUE(read.ok()) << read.error().message;
    std::size_t i = 0;
    for (std::int64_t p = from; p < std::ssize(tokens); ++p) {
      for (std::int64_t h = 0; h < kHeads; ++h) {
        for (std::int64_t d = 0; d < kDim; ++d, ++i) {
          ASSERT_NEAR(read->keys[i], truth(tokens, p, layer, h, d), tolerance) << "position " << p;
          ASSERT_NEAR(read->values[i], truth(tokens, p, layer, h, d), tolerance) << "position " << p;
        }
      }
    }
  }
}

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

TEST(KvCache, APrefixIsFoundAndVerified) {
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

  ASSERT_TRUE(cache->open(4, "another tenant").ok());
  EXPECT_EQ(cache->reuse(4, tokens), 0);
}

TEST(KvCache, LossyPrefixesAreWholePages) {
  auto cache = make({spec(KvFormat::q4)});
  ASSERT_TRUE(cache->open(1).ok());
  const auto tokens = counting(100);
  ASSERT_TRUE(extend(*cache, 1, tokens).ok());
  ASSERT_TRUE(cache->open(2).ok());
  EXPECT_EQ(cache->reuse(2, tokens), 96);
  ASSERT_TRUE(cache->open(3).ok());
  EXPECT_EQ(cache->reuse(3, std::span(tokens).first(80)), 64);
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

TEST(KvCache, WindowPagesAreFoundAtCheckpointsOnly) {
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

TEST(KvCache, TwinsBelongToTheResumeSet) {
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

TEST(KvCache, AReservationSucceedsWholeOrChangesNothing) {
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

TEST(KvCache, CachedPagesMakeRoom) {
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

TEST(KvCache, TheEstimateIsWhatTheAllocatorCounts) {
  for (const KvFormatInfo& format : kv_formats()) {
    for (const std::int64_t recent : {0, 2}) {
      KvGroupSpec s = spec(format.format);
      s.sink_pages = 1;
      s.recent_pages = recent;
      auto cache = make({s, spec(format.format, {4, 50})});
      ASSERT_TRUE(cache->open(1).ok());
      const auto tokens = counting(333);
      for (const std::size_t end : {1u, 31u, 32u, 33u, 64u, 100u, 320u, 333u}) {
        ASSERT_TRUE(extend(*cache, 1, std::span(tokens).first(end)).ok());
        EXPECT_EQ(cache->held_bytes(1), cache->estimate_bytes(static_cast<std::int64_t>(end)))
            << format.name << " " << end;
      }
    }
  }
}

TEST(KvCache, PagesThatAreNoWholeCacheLinesAreCountedAsTheyAre) {
  KvGroupSpec odd = spec(KvFormat::k4);
  odd.layers = odd.kv_heads = 1;
  auto cache = make({odd});
  const std::vector<float> rows(40 * kDim, 1.f);
  ASSERT_TRUE(cache->open(1).ok() && cache->append(1, 0, rows, rows, 40).ok());
  cache->advance(1, counting(40));
  EXPECT_EQ(cache->stats().cached_bytes, 0u) << "the sequence holds all there is";
  EXPECT_EQ(cache->pool_counters().used_bytes, cache->estimate_bytes(40));
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

TEST(KvCache, EvictionKeepsWhatWasLookedAt) {
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

TEST(KvCache, TokensNobodyScoredAreEvictedFirst) {
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

TEST(KvCache, AnEvictionWithoutMemoryChangesNothing) {
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

TEST(KvCache, WindowsNarrowerThanWhatElseIsKept) {
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
