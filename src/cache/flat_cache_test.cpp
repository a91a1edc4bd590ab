#include "cache/flat_cache.h"

#include <gtest/gtest.h>

#include <limits>
#include <span>

#include "core/half.h"

namespace quire {
namespace {

FlatCache make(KvGeometry geometry, std::int64_t length) { return std::move(*FlatCache::create(geometry, length)); }

std::vector<float> tokens(const KvGeometry& g, std::int64_t count, int seed) {
  std::vector<float> v(static_cast<std::size_t>(count * g.row_values()));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(seed * 100 + static_cast<int>(i));
  return v;
}

// All values of one layer's keys or values, in the order they lie in memory.
std::vector<float> values_of(const FlatCache& cache, const KvStreamLayout& stream, std::int64_t layer) {
  const auto* at = reinterpret_cast<const f16_t*>(stream.tile(cache.table({}).pages[0].wide, layer, 0));
  std::vector<float> values;
  for (std::int64_t i = 0; i < cache.geometry().kv_heads * cache.kv_stride(); ++i) values.push_back(f16_to_f32(at[i]));
  return values;
}
std::vector<float> keys_of(const FlatCache& cache, std::int64_t layer) {
  return values_of(cache, cache.layout({}).wide.keys, layer);
}
std::vector<float> values_of(const FlatCache& cache, std::int64_t layer) {
  return values_of(cache, cache.layout({}).wide.values, layer);
}

TEST(FlatCache, StartsEmptyAndZeroFilled) {
  const FlatCache cache = make({2, 3, 4}, 5);
  EXPECT_EQ(cache.current_length(), 0);
  EXPECT_EQ(cache.max_length(), 5);
  EXPECT_EQ(cache.kv_stride(), 5 * 4);
  EXPECT_EQ(cache.bytes(), 2u * 2 * 3 * 5 * 4 * 2);
  for (const std::int64_t layer : {0, 1}) {
    for (const float k : keys_of(cache, layer)) EXPECT_EQ(k, 0);
    for (const float v : values_of(cache, layer)) EXPECT_EQ(v, 0);
  }
}

TEST(FlatCache, AppendIsHeadMajor) {
  const KvGeometry g{2, 3, 4};
  FlatCache cache = make(g, 6);
  ASSERT_TRUE(cache.advance(2).ok());
  const auto k = tokens(g, 3, 1), v = tokens(g, 3, 2);
  ASSERT_TRUE(cache.append(1, k, v, 3).ok());
  EXPECT_EQ(cache.current_length(), 2) << "append does not advance";
  for (int t = 0; t < 3; ++t) {
    for (int h = 0; h < 3; ++h) {
      for (int d = 0; d < 4; ++d) {
        const auto at = static_cast<std::size_t>(h * cache.kv_stride() + (2 + t) * 4 + d);
        const auto from = static_cast<std::size_t>((t * 3 + h) * 4 + d);
        EXPECT_EQ(keys_of(cache, 1)[at], k[from]);
        EXPECT_EQ(values_of(cache, 1)[at], v[from]);
      }
    }
  }
  for (const float x : keys_of(cache, 0)) EXPECT_EQ(x, 0) << "another layer was written";
}

TEST(FlatCache, OverflowIsAnErrorAndChangesNothing) {
  const KvGeometry g{1, 1, 2};
  FlatCache cache = make(g, 4);
  ASSERT_TRUE(cache.advance(3).ok());
  EXPECT_FALSE(cache.would_overflow(1));
  EXPECT_TRUE(cache.would_overflow(2));
  EXPECT_TRUE(cache.would_overflow(std::numeric_limits<std::int64_t>::max()));
  const auto two = tokens(g, 2, 1);
  const auto append = cache.append(0, two, two, 2);
  ASSERT_FALSE(append.ok());
  EXPECT_EQ(append.error().code, Errc::context_full);
  EXPECT_EQ(keys_of(cache, 0)[3 * 2], 0);
  const auto advance = cache.advance(2);
  ASSERT_FALSE(advance.ok());
  EXPECT_NE(advance.error().message.find("--ctx-size"), std::string::npos);
  EXPECT_EQ(cache.current_length(), 3);
}

TEST(FlatCache, RollbackForwardIsANoOp) {
  FlatCache cache = make({1, 1, 2}, 8);
  ASSERT_TRUE(cache.advance(5).ok());
  ASSERT_TRUE(cache.rollback(7).ok());
  EXPECT_EQ(cache.current_length(), 5);
  ASSERT_TRUE(cache.rollback(2).ok());
  EXPECT_EQ(cache.current_length(), 2);
  EXPECT_FALSE(cache.rollback(-1).ok());
  cache.reset();
  EXPECT_EQ(cache.current_length(), 0);
}

TEST(FlatCache, RollbackKeepsTheBytesBeforeIt) {
  const KvGeometry g{1, 2, 2};
  FlatCache cache = make(g, 8);
  const auto first = tokens(g, 4, 1), second = tokens(g, 1, 7);
  ASSERT_TRUE(cache.append(0, first, first, 4).ok());
  ASSERT_TRUE(cache.advance(4).ok());
  ASSERT_TRUE(cache.rollback(3).ok());
  ASSERT_TRUE(cache.append(0, second, second, 1).ok());
  EXPECT_EQ(keys_of(cache, 0)[2 * 2], first[2 * 4]);
  EXPECT_EQ(keys_of(cache, 0)[3 * 2], second[0]);
}

TEST(FlatCache, HoldsFloats) {
  auto cache = FlatCache::create({2, 3, 4}, 5, KvFormat::f32);
  ASSERT_TRUE(cache.ok());
  EXPECT_EQ(cache->bytes(), 2u * 2 * 3 * 5 * 4 * 4);
  EXPECT_EQ(cache->bytes_per_token(), 2u * 2 * 3 * 4 * 4);
  const auto packed = FlatCache::create({2, 3, 4}, 5, KvFormat::q4);
  ASSERT_FALSE(packed.ok());
  EXPECT_NE(packed.error().message.find("q4"), std::string::npos);
}

// Page i of the view is positions [32 i, 32 i + 32) of the same buffer.
TEST(FlatCache, TheViewIsTheBuffer) {
  const KvGeometry g{2, 3, 4};
  FlatCache cache = make(g, 70);
  const auto rows = tokens(g, 70, 0);
  ASSERT_TRUE(cache.append(1, rows, rows, 70).ok());
  const KvStreamLayout keys = cache.layout({}).wide.keys;
  for (const std::int64_t position : {0, 31, 32, 69}) {
    float row[4];
    read_token(keys.format, keys.order, keys.tile(cache.table({}).pages[position / 32].wide, 1, 2), position % 32, 4,
               row);
    EXPECT_EQ(row[3], rows[static_cast<std::size_t>((position * 3 + 2) * 4 + 3)]);
  }
}

TEST(FlatCache, BadShapesAreRefused) {
  EXPECT_FALSE(FlatCache::create({0, 1, 1}, 1).ok());
  EXPECT_FALSE(FlatCache::create({1, 1, 1}, 0).ok());
  EXPECT_FALSE(FlatCache::create({1 << 30, 1 << 30, 1 << 30}, std::int64_t{1} << 40).ok());
}

// What models need, by 2 x layers x heads x dim x positions x 2 bytes.
TEST(FlatCache, MemoryOfKnownModels) {
  constexpr std::uint64_t kMiB = 1 << 20;
  struct Row {
    KvGeometry geometry;
    std::uint64_t positions, mebibytes;
  };
  for (const Row& row : {Row{{32, 8, 128}, 4096, 512},        // LLaMA 3 8B
                         Row{{32, 8, 128}, 8192, 1024},       //
                         Row{{28, 4, 128}, 4096, 224},        // Qwen2.5 7B
                         Row{{34, 4, 256}, 4096, 544},        // Gemma 3 4B, were all its layers global
                         Row{{80, 8, 128}, 4096, 1280},       // LLaMA 3 70B
                         Row{{80, 8, 128}, 8192, 2560},       //
                         Row{{80, 64, 128}, 8192, 20480}}) {  // the same with a KV head per query head
    EXPECT_EQ(row.geometry.bytes(row.positions, 2), row.mebibytes * kMiB);
  }
  // The allocator counts what the formula says.
  EXPECT_EQ(make({28, 4, 128}, 512).bytes(), 28 * kMiB);
}

}  // namespace
}  // namespace quire
