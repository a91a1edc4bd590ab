// A small cache and a model that is a hash, for the tests of the cache's rules.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "cache/kv_cache.h"

namespace quire::testing_support {

inline constexpr std::int64_t kHeads = 2, kDim = 8;

inline KvGroupSpec spec(KvFormat format = KvFormat::f16, KvVisibility visible = {}) {
  KvGroupSpec s;
  s.layers = 2;
  s.kv_heads = kHeads;
  s.key_dim = s.value_dim = kDim;
  s.keys = s.values = format;
  s.visible = visible;
  return s;
}

inline std::unique_ptr<KvCache> make(std::vector<KvGroupSpec> groups = {spec()}, std::uint64_t budget = 1 << 22) {
  CacheOptions options;
  options.groups = std::move(groups);
  options.budget_bytes = budget;
  options.poison = true;
  return std::move(*KvCache::create(options));
}

// What the model would compute for a token: a small number that every earlier token changes.
inline float truth(std::span<const TokenId> tokens, std::int64_t position, std::int64_t layer, std::int64_t head,
                   std::int64_t d) {
  std::uint32_t hash = 17;
  for (std::int64_t i = 0; i <= position; ++i) {
    hash = hash * 31 + static_cast<std::uint32_t>(tokens[static_cast<std::size_t>(i)]);
  }
  hash = (hash ^ static_cast<std::uint32_t>(layer * 7 + head * 3 + d * 5)) * 2654435761u;
  return static_cast<float>(hash >> 25) - 64;
}

inline std::vector<TokenId> counting(std::int64_t count, TokenId from = 0) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

// Computes and commits what `all` has beyond the sequence; the first `accepted` of it stay.
inline Result<void> extend(KvCache& cache, SequenceId id, std::span<const TokenId> all, std::int64_t accepted = -1) {
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

inline void expect_holds(const KvCache& cache, SequenceId id, std::span<const TokenId> tokens, std::int64_t from = 0,
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

}  // namespace quire::testing_support
