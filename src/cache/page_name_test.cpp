#include "cache/page_name.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <set>

#include "cache/kv_cache.h"

namespace quire {
namespace {

Digest digest_of(int value) { return Hasher().update(value).finish(); }

std::vector<TokenId> block_from(TokenId first) {
  std::vector<TokenId> tokens(kPageTokens);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

TEST(PageName, FollowsTheRule) {
  const auto hash = [](int use, const Digest& first, std::span<const std::byte> rest) {
    return Hasher().update(static_cast<std::uint8_t>(use)).update(first).update(rest).finish();
  };
  const auto tokens = block_from(7);
  const std::int32_t group = 3;
  const Digest start = hash(0, digest_of(1), {});
  const Digest mixed = hash(1, start, digest_of(2));
  const Digest chain = hash(2, mixed, std::as_bytes(std::span(tokens)));

  ChainNamer namer(digest_of(1));
  EXPECT_EQ(namer.before_next(), start);
  namer.mix_at(0, digest_of(2));
  EXPECT_EQ(namer.before_next(), mixed);
  const BlockName name = namer.next(tokens);
  EXPECT_EQ(name.before, mixed);
  EXPECT_EQ(name.chain, chain);
  EXPECT_EQ(page_name(name.chain, group), hash(3, chain, std::as_bytes(std::span(&group, 1))));
}

TEST(PageName, EverythingThatCameBeforeCounts) {
  std::set<Digest> seen;
  for (const int root : {1, 2}) {
    for (const TokenId first : {0, 1}) {
      ChainNamer namer{digest_of(root)};
      for (const TokenId token : {first, 100}) {
        const BlockName name = namer.next(block_from(token));
        for (const int group : {0, 1}) EXPECT_TRUE(seen.insert(page_name(name.chain, group)).second);
      }
    }
  }
}

TEST(PageName, WhatIsMixedInChangesLaterBlocksOnly) {
  ChainNamer plain{digest_of(1)}, mixed{digest_of(1)}, other{digest_of(1)};
  mixed.mix_at(2, digest_of(5));
  other.mix_at(2, digest_of(6));
  for (int block = 0; block < 4; ++block) {
    const auto tokens = block_from(block);
    const BlockName a = plain.next(tokens), b = mixed.next(tokens), c = other.next(tokens);
    EXPECT_EQ(a.chain == b.chain, block < 2) << block;
    EXPECT_EQ(a.before == b.before, block < 2) << block;
    EXPECT_EQ(b.chain == c.chain, block < 2) << block;
  }
}

TEST(PageName, WhatHasItsNameKeepsIt) {
  ChainNamer namer{digest_of(1)};
  namer.next(block_from(0));
  EXPECT_DEATH(namer.mix_at(0, digest_of(2)), "has its name already");
}

// Whatever changes the bytes of a page changes every name.
TEST(PageName, CachesThatDifferShareNoName) {
  CacheOptions plain;
  KvGroupSpec spec;
  spec.layers = spec.kv_heads = 2;
  spec.key_dim = spec.value_dim = 64;
  plain.groups = {spec};
  plain.budget_bytes = 1 << 20;
  const std::function<void(CacheOptions&)> changes[] = {
      [](CacheOptions&) {},
      [](CacheOptions& o) { o.fingerprint = digest_of(1); },
      [](CacheOptions& o) { o.groups.push_back(o.groups[0]); },
      [](CacheOptions& o) { o.groups[0].layers = 1; },
      [](CacheOptions& o) { o.groups[0].kv_heads = 1; },
      [](CacheOptions& o) { o.groups[0].key_dim = 32; },
      [](CacheOptions& o) { o.groups[0].value_dim = 32; },
      [](CacheOptions& o) { o.groups[0].latent = true; },
      [](CacheOptions& o) { o.groups[0].keys = KvFormat::q8; },
      [](CacheOptions& o) { o.groups[0].values = KvFormat::q8; },
      [](CacheOptions& o) { o.groups[0].visible.window = 100; },
      [](CacheOptions& o) { o.groups[0].sink_pages = 1; },
      [](CacheOptions& o) { o.groups[0].recent_pages = 1; },
  };
  std::set<Digest> identities;
  for (const auto& change : changes) {
    CacheOptions options = plain;
    change(options);
    identities.insert((*KvCache::create(options))->identity());
  }
  EXPECT_EQ(identities.size(), std::size(changes));
}

}  // namespace
}  // namespace quire
