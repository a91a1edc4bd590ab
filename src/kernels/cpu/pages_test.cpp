#include <gtest/gtest.h>

#include <limits>

#include "kernels/cpu/cache_test_support.h"
#include "kv/hadamard.h"

namespace quire {
namespace {

using namespace testing_support;

// Pages of 7s, filled by append and encode; all bytes of all pages.
std::vector<std::byte> filled(const Ops& ops, const CacheShape& s, std::span<const std::int64_t> chunks,
                              ThreadPool& pool) {
  const KvGroupLayout group = group_layout(s);
  constexpr std::int64_t kPages = 5;
  const auto wide_bytes = static_cast<std::size_t>(group.wide.bytes),
             packed_bytes = static_cast<std::size_t>(group.packed.bytes);
  std::vector<std::byte> memory(kPages * 2 * (wide_bytes + packed_bytes), std::byte{7});
  std::vector<KvTableEntry> entries;
  for (std::size_t i = 0; i < 2 * kPages; ++i) {
    std::byte* at = memory.data() + i * (wide_bytes + packed_bytes);
    entries.push_back({at, at + wide_bytes});
  }
  const std::int64_t key_row = s.kv_heads * s.key_dim, value_row = s.kv_heads * s.value_dim;
  auto keys = random_floats(2 * kPages * kPageTokens * key_row, 1),
       values = random_floats(2 * kPages * kPageTokens * value_row, 2, 1e-2f);
  keys[3] = 1e9f;  // infinity in f16
  values[5] = std::numeric_limits<float>::quiet_NaN();
  std::int64_t position = 0;
  for (const std::int64_t rows : chunks) {
    const KvRows sequences[]{{0, rows, position, {entries.data(), nullptr, 0, 0}},
                             {rows, rows, position, {entries.data() + kPages, nullptr, 0, 0}}};
    const KvTarget target{&group, kTestLayer, sequences};
    ops.append({keys.data() + 2 * position * key_row, values.data() + 2 * position * value_row, target}, pool);
    ops.encode({target}, pool);
    position += rows;
  }
  return memory;
}

TEST(Pages, AppendAndEncodeWriteTheBytesOfTheReferenceAndNothingElse) {
  ThreadPool pool(2);
  for (const KvFormatInfo& format : kv_formats()) {
    for (const std::int64_t dim : {20, 64}) {
      for (const KvOrder order : {KvOrder::lanes, KvOrder::rows}) {
        CacheShape s{.q_heads = 2,
                     .kv_heads = 2,
                     .key_dim = dim,
                     .value_dim = dim,
                     .keys = format.format,
                     .values = format.format,
                     .key_order = order};
        s.sink_pages = 1;
        for (const std::vector<std::int64_t>& chunks : {std::vector<std::int64_t>{130}, {1, 1, 29, 1, 8, 50, 3}}) {
          const auto truth = filled(ref_ops(), s, chunks, pool);
          for (const Ops* ops : fast_ops())
            EXPECT_TRUE(truth == filled(*ops, s, chunks, pool)) << ops->name << " " << describe(s);
        }
      }
    }
  }
}

TEST(Hadamard, GivesTheBitsOfTheScalarLoop) {
  ThreadPool pool(2);
  for (const std::int64_t dim : {1, 2, 12, 20, 8, 16, 64, 72, 80, 96, 128, 256}) {
    auto truth = random_floats(50 * dim, 1);
    const auto x = truth;
    for (std::int64_t r = 0; r < 50; ++r) hadamard(truth.data() + r * dim, dim);
    for (const Ops* ops : fast_ops()) {
      auto fast = x;
      ops->hadamard({fast.data(), 50, dim}, pool);
      EXPECT_TRUE(AttentionResult::same_bits(truth, fast)) << ops->name << " dim " << dim;
    }
  }
}

}  // namespace
}  // namespace quire
