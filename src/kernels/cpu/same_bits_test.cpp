// Prefill in any chunks and decode, on any number of threads, alone or in a batch, with a prefix of its
// own or a shared one: the same bits.
#include <gtest/gtest.h>

#include "kernels/cpu/cache_test_support.h"

namespace quire {
namespace {

using namespace testing_support;

std::vector<CacheShape> shapes() {
  std::vector<CacheShape> all;
  for (const KvFormatInfo& format : kv_formats()) {
    all.push_back(
        {.q_heads = 6, .kv_heads = 2, .key_dim = 64, .value_dim = 64, .keys = format.format, .values = format.format});
  }
  all.push_back(
      {.q_heads = 4, .kv_heads = 1, .key_dim = 256, .value_dim = 256, .keys = KvFormat::q8, .values = KvFormat::q4});
  for (const KvFormat format : {KvFormat::f16, KvFormat::q8, KvFormat::q4}) {
    all.push_back(
        {.q_heads = 5, .kv_heads = 1, .key_dim = 96, .value_dim = 96, .keys = format, .values = KvFormat::f16});
    all.push_back({.q_heads = 2, .kv_heads = 2, .key_dim = 32, .value_dim = 32, .keys = format, .values = format});
  }
  all.push_back(
      {.q_heads = 2, .kv_heads = 2, .key_dim = 72, .value_dim = 20, .keys = KvFormat::k2, .values = KvFormat::fp8});
  all.push_back({.q_heads = 8, .kv_heads = 1, .key_dim = 20, .value_dim = 20, .key_order = KvOrder::rows});
  all.push_back({.q_heads = 7,
                 .kv_heads = 1,
                 .key_dim = 16,
                 .value_dim = 64,
                 .keys = KvFormat::q8,
                 .values = KvFormat::q8,
                 .latent = true});
  CacheShape window{
      .q_heads = 3, .kv_heads = 1, .key_dim = 32, .value_dim = 32, .keys = KvFormat::q4, .values = KvFormat::q5};
  window.visible = {40, 530};
  window.sink_pages = 1;
  window.recent_pages = 2;
  all.push_back(window);
  return all;
}

std::vector<float> part_of(const std::vector<float>& all, std::int64_t row, std::int64_t rows, std::int64_t width) {
  return {all.begin() + row * width, all.begin() + (row + rows) * width};
}

// Around a border of segments, with tokens kept by eviction and without.
void expect_one_row_or_many(std::int64_t border, std::int64_t most_kept) {
  ThreadPool one(1), five(5);
  const std::int64_t length = border + 76, first = border - 64;
  for (const CacheShape& s : shapes()) {
    const std::int64_t width = s.q_heads * s.query_dim(), out_width = s.q_heads * s.value_dim;
    for (const std::int64_t kept : {std::int64_t{0}, most_kept}) {
      const TestSequence sequence(s, length, 1, kept, kept > 0 ? 512 : 0);
      const auto q = random_floats((length - first) * width, 3), q_sinks = random_floats((length - first) * width, 4);
      for (const Ops* ops : attention_ops()) {
        const KvRows all{0, length - first, first, sequence.table()};
        const auto together = attend(*ops, s, {&all, 1}, one, q, q_sinks);
        if (kept > 0) {
          EXPECT_EQ(together, attend(*ops, s, {&all, 1}, five, q, q_sinks)) << ops->name << " " << describe(s);
        }
        for (const std::int64_t position : {border - 33, border - 32, border - 1, border, length - 1}) {
          const std::int64_t row = position - first, rows = position == border - 32 ? 33 : 1;
          const KvRows some{0, rows, position, sequence.table()};
          const auto alone =
              attend(*ops, s, {&some, 1}, one, part_of(q, row, rows, width), part_of(q_sinks, row, rows, width));
          const AttentionResult same{part_of(together.out, row, rows, out_width),
                                     part_of(together.log_sum_exp, row, rows, s.q_heads)};
          EXPECT_EQ(alone, same) << ops->name << " " << describe(s) << " position " << position << " kept " << kept;
        }
      }
    }
  }
}

TEST(SameBits, OneRowOrManyOnAnyNumberOfThreads) { expect_one_row_or_many(1024, 545); }
TEST(SameBits, OneRowOrManyWhereSegmentsBecomeLong) { expect_one_row_or_many(2048, 2100); }
TEST(SameBits, OneRowOrManyInLongSegments) { expect_one_row_or_many(3072, 3100); }

// Sequences that share whole segments, parts of them or nothing, next to one another and in any order.
TEST(SameBits, AloneOrInABatchWithASharedPrefixOrACopyOfIt) {
  ThreadPool pool(3);
  for (const CacheShape& s : shapes()) {
    const std::int64_t width = s.q_heads * s.query_dim();
    const TestSequence a(s, 1100, 1), b(s, 1030, 2, 0, 0, &a, 1024), c(s, 700, 3, 0, 0, &a, 512), d(s, 1100, 1),
        e(s, 40, 4), f(s, 1200, 5, 70, 0, &a, 1024), g(s, 1050, 6, 0, 0, &a, 992), h(s, 990, 7, 0, 0, &g, 640),
        i(s, 1000, 8, 0, 0, &a, 160), j(s, 300, 9, 0, 0, &a, 288);
    const KvRows batch[]{{0, 1, 1099, a.table()}, {1, 1, 699, c.table()},   {2, 1, 39, e.table()},
                         {3, 2, 1028, b.table()}, {5, 1, 1099, d.table()},  {6, 3, 1197, f.table()},
                         {9, 1, 1090, a.table()}, {10, 1, 1049, g.table()}, {11, 2, 985, h.table()},
                         {13, 1, 999, i.table()}, {14, 5, 290, j.table()}};
    auto q = random_floats(19 * width, 3), q_sinks = random_floats(19 * width, 4);
    std::copy_n(q.begin(), width, q.begin() + 5 * width);
    std::copy_n(q_sinks.begin(), width, q_sinks.begin() + 5 * width);
    for (const Ops* ops : attention_ops()) {
      const auto together = attend(*ops, s, batch, pool, q, q_sinks);
      for (const KvRows& rows : batch) {
        KvRows single = rows;
        single.first_row = 0;
        const auto alone = attend(*ops, s, {&single, 1}, pool, part_of(q, rows.first_row, rows.rows, width),
                                  part_of(q_sinks, rows.first_row, rows.rows, width));
        EXPECT_TRUE(AttentionResult::same_bits(
            alone.out, part_of(together.out, rows.first_row, rows.rows, s.q_heads * s.value_dim)))
            << ops->name << " " << describe(s) << " row " << rows.first_row;
      }
      const std::int64_t row = s.q_heads * s.value_dim;
      EXPECT_TRUE(AttentionResult::same_bits(part_of(together.out, 0, 1, row), part_of(together.out, 5, 1, row)))
          << ops->name << " " << describe(s) << ": a copy of the pages gives other bits";
    }
  }
}

}  // namespace
}  // namespace quire
