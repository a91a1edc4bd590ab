#include "cache/strategy.h"

#include <gtest/gtest.h>

#include <numeric>

#include "cache/kv_cache.h"

namespace quire {
namespace {

TEST(CacheStrategy, SaysWhichSequencesAreCached) {
  EXPECT_TRUE(parse_strategy("always")->caches(1));
  EXPECT_FALSE(parse_strategy("off")->caches(1 << 20));
  EXPECT_FALSE(parse_strategy("long:100")->caches(100));
  EXPECT_TRUE(parse_strategy("long:100")->caches(101));
  for (const char* wrong : {"", "long", "long:", "long:x", "long:-1", "long:1x", "Always"}) {
    EXPECT_FALSE(parse_strategy(wrong).ok()) << wrong;
  }
}

struct Sequences {
  explicit Sequences(const char* strategy) {
    CacheOptions options;
    KvGroupSpec spec;
    spec.layers = spec.kv_heads = 1;
    spec.key_dim = spec.value_dim = 64;
    options.groups = {spec};
    options.budget_bytes = 1 << 20;  // about 120 pages
    options.strategy = *parse_strategy(strategy);
    cache = std::move(*KvCache::create(options));
  }
  Result<void> compute(SequenceId id, TokenId first, std::int64_t count = 320) {
    std::vector<TokenId> tokens(static_cast<std::size_t>(count));
    std::iota(tokens.begin(), tokens.end(), first);
    (void)cache->open(id);
    const std::vector<float> rows(static_cast<std::size_t>(64 * count), 1.f);
    auto appended = cache->append(id, 0, rows, rows, count);
    if (appended.ok()) cache->advance(id, tokens);
    return appended;
  }
  std::unique_ptr<KvCache> cache;
};

TEST(CacheStrategy, AdaptiveGivesParkedSequencesBackOldestFirst) {
  for (const char* strategy : {"always", "adaptive"}) {
    Sequences s(strategy);
    Result<void> last;
    SequenceId id = 0;
    for (; id < 30 && last.ok(); ++id) {
      last = s.compute(id, static_cast<TokenId>(1000 * id));
      if (last.ok()) s.cache->park(id);
    }
    if (std::string_view(strategy) == "always") {
      EXPECT_FALSE(last.ok());
      EXPECT_TRUE(s.cache->contains(0));
      continue;
    }
    ASSERT_TRUE(last.ok()) << last.error().message;
    EXPECT_FALSE(s.cache->contains(0));
    EXPECT_TRUE(s.cache->contains(29));
    EXPECT_GT(s.cache->stats().counters.released_sequences, 0u);
  }
}

// Pages nobody asks for are given back before memory runs out; pages that are asked for stay longer.
TEST(CacheStrategy, AdaptiveWatchesPressureAndHitRate) {
  std::uint64_t cached[3];
  int i = 0;
  for (const char* strategy : {"always", "adaptive", "adaptive"}) {
    Sequences s(strategy);
    for (SequenceId id = 0; id < 40; ++id) {
      ASSERT_TRUE(s.compute(id, static_cast<TokenId>(1000 * id)).ok());
      s.cache->release(id);
      if (i < 2) continue;
      std::vector<TokenId> again(320);
      std::iota(again.begin(), again.end(), static_cast<TokenId>(1000 * id));
      (void)s.cache->open(1000);
      EXPECT_GT(s.cache->reuse(1000, again), 0);
      s.cache->release(1000);
    }
    cached[i++] = s.cache->stats().cached_bytes;
  }
  EXPECT_LT(cached[1], cached[2]);
  EXPECT_LT(cached[2], cached[0]);
}

}  // namespace
}  // namespace quire
