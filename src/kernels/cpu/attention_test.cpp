#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/cache_test_support.h"

namespace quire {
namespace {

using namespace testing_support;

struct Case {
  CacheShape shape;
  std::int64_t length, rows, kept = 0, first_position = 0;
  float softcap = 0, deviation = 1;
};

constexpr float kRoundedTolerance = 2e-2f;

// Every backend against the reference, over a sequence that holds nothing it need not hold.
void expect_agreement(const Case& c, float tolerance) {
  ThreadPool pool(2);
  TestSequence sequence(c.shape, c.length, 1, c.kept, c.first_position);
  const std::int64_t first = c.length - c.rows;
  sequence.release(first);
  const KvRows rows{0, c.rows, first, sequence.table()};
  const auto q = random_floats(c.rows * c.shape.q_heads * c.shape.query_dim(), 3, c.deviation);
  const auto q_sinks = random_floats(c.rows * c.shape.q_heads * c.shape.query_dim(), 4, c.deviation);
  const auto truth = attend(ref_ops(), c.shape, {&rows, 1}, pool, q, q_sinks, c.softcap);
  for (const Ops* ops : attention_ops()) {
    // Rounded to 8 bits, scores are off by as many hundredths as they are large.
    const bool rounds = ops == &bf16_ops();
    if (rounds && c.deviation > 10) continue;
    const float most = rounds ? std::max(kRoundedTolerance * c.deviation, tolerance) : tolerance;
    const auto fast = attend(*ops, c.shape, {&rows, 1}, pool, q, q_sinks, c.softcap);
    EXPECT_LT(largest_difference(truth.out, fast.out), most)
        << ops->name << " " << describe(c.shape) << " length " << c.length << " rows " << c.rows << " kept " << c.kept
        << " from " << c.first_position;
    EXPECT_LT(largest_difference(truth.log_sum_exp, fast.log_sum_exp), most * c.deviation)
        << ops->name << " " << describe(c.shape) << " length " << c.length;
  }
}

constexpr float kTolerance = 3e-5f;

TEST(Attention, AgreesWithTheReferenceAtTheEdges) {
  for (const std::int64_t length : {1, 2, 31, 32, 33, 64, 511, 512, 513, 1100}) {
    for (const std::int64_t rows : {std::int64_t{1}, std::min<std::int64_t>(length, 40)}) {
      for (const std::int64_t window : {0, 1, 8, 33, 600}) {
        CacheShape shape{.q_heads = 3, .kv_heads = 1, .key_dim = 20, .value_dim = 20};
        shape.visible.window = window;
        expect_agreement({shape, length, rows}, kTolerance);
        shape.values = KvFormat::q4;
        shape.visible.sinks = 4;
        expect_agreement({shape, length, rows}, kTolerance);
      }
    }
  }
}

TEST(Attention, AgreesWithTheReferenceInLongSegments) {
  for (const std::int64_t length : {2047, 2048, 2049, 3072, 3073, 4130}) {
    for (const std::int64_t window : {0, 2500}) {
      CacheShape shape{.q_heads = 3, .kv_heads = 1, .key_dim = 20, .value_dim = 20};
      shape.visible.window = window;
      expect_agreement({shape, length, 1}, kTolerance);
      expect_agreement({shape, length, 40}, kTolerance);
      shape.visible.sinks = 2100;
      expect_agreement({.shape = shape, .length = length, .rows = 2, .kept = 2100}, kTolerance);
    }
  }
}

TEST(Attention, EveryPairOfFormats) {
  for (const KvFormatInfo& keys : kv_formats()) {
    for (const KvFormatInfo& values : kv_formats()) {
      const CacheShape shape{.q_heads = 3, .kv_heads = 1, .keys = keys.format, .values = values.format};
      expect_agreement({shape, 75, 1}, kTolerance);
      expect_agreement({shape, 75, 9}, kTolerance);
    }
  }
}

// Whatever comes together: the lists are crossed at random, always alike.
TEST(Attention, AgreesWithTheReferenceOnManyMixtures) {
  std::mt19937 generator(5);
  const auto one_of = [&](auto list) { return *(list.begin() + generator() % list.size()); };
  using Numbers = std::initializer_list<std::int64_t>;
  for (int i = 0; i < 160; ++i) {
    Case c{};
    c.shape.kv_heads = one_of(Numbers{1, 2});
    c.shape.q_heads = c.shape.kv_heads * one_of(Numbers{1, 2, 3, 4, 7, 8});
    c.shape.key_dim = one_of(Numbers{16, 17, 20, 64, 72, 128, 256});
    c.shape.value_dim = one_of(Numbers{c.shape.key_dim, 16, 40, 96});
    c.shape.keys = kv_formats()[generator() % 10].format;
    c.shape.values = kv_formats()[generator() % 10].format;
    c.shape.key_order = generator() % 4 == 0 ? KvOrder::rows : KvOrder::lanes;
    c.shape.visible = {one_of(Numbers{0, 0, 4, 40, 600}), one_of(Numbers{0, 0, 1, 8, 33, 600})};
    c.shape.sink_pages = one_of(Numbers{0, 0, 1, 3});
    c.shape.recent_pages = one_of(Numbers{0, 0, 1, 4});
    c.length = one_of(Numbers{1, 31, 32, 33, 130, 511, 512, 513, 1100});
    c.rows = std::min(c.length, one_of(Numbers{1, 1, 2, 5, 33}));
    c.kept = one_of(Numbers{0, 0, 1, 40, 530});
    if (c.kept > 0 && c.length > 64 + c.rows) c.first_position = 64;
    expect_agreement(c, kTolerance);
  }
}

TEST(Attention, Latent) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::q8, KvFormat::q4, KvFormat::k4}) {
    CacheShape shape{.q_heads = 5, .kv_heads = 1, .key_dim = 16, .value_dim = 72, .keys = format, .values = format};
    shape.latent = true;
    expect_agreement({shape, 70, 1}, kTolerance);
    expect_agreement({shape, 70, 40}, kTolerance);
  }
  CacheShape large{.q_heads = 128, .kv_heads = 1, .key_dim = 64, .value_dim = 512};
  large.latent = true;
  expect_agreement({large, 40, 2}, kTolerance);
}

TEST(Attention, Softcap) {
  const CacheShape shape{.q_heads = 4, .kv_heads = 2, .key_dim = 32, .value_dim = 32};
  const Case capped{.shape = shape, .length = 70, .rows = 5, .softcap = 5, .deviation = 8};
  expect_agreement(capped, 2 * kTolerance);

  ThreadPool pool(1);
  const TestSequence sequence(shape, 70, 1);
  const KvRows rows{0, 5, 65, sequence.table()};
  const auto q = random_floats(5 * 4 * 32, 3, 8.f);
  const auto with = attend(ref_ops(), shape, {&rows, 1}, pool, q, q, 5.f),
             without = attend(ref_ops(), shape, {&rows, 1}, pool, q, q);
  EXPECT_GT(largest_difference(with.out, without.out), 0.01f) << "the cap has no effect";
}

TEST(Attention, LargeScoresDoNotOverflow) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::q8, KvFormat::k4}) {
    const CacheShape shape{.q_heads = 2, .kv_heads = 1, .key_dim = 16, .value_dim = 16, .keys = format};
    expect_agreement({.shape = shape, .length = 600, .rows = 1, .deviation = 300}, 1e-3f);
  }
}

// A window of W reads W tokens: changing the one before it changes nothing, changing its first does.
TEST(Attention, WindowIsExact) {
  ThreadPool pool(1);
  CacheShape shape{.q_heads = 2, .kv_heads = 1, .key_dim = 16, .value_dim = 16};
  const auto q = random_floats(2 * 16, 3);
  for (const Ops* ops : {&ref_ops(), &cpu_ops(best_isa())}) {
    for (const std::int64_t window : {1, 5, 32, 33}) {
      shape.visible.window = window;
      TestSequence sequence(shape, 100, 1);
      const KvRows rows{0, 1, 99, sequence.table()};
      const std::int64_t first = 99 - window + 1;
      const auto change = [&](std::int64_t position, float to) {
        const KvStreamLayout& values = sequence.group().wide.values;
        std::byte* page = sequence.entries()[static_cast<std::size_t>(position / kPageTokens)].wide;
        const std::vector<float> row(16, to);
        write_token(values.format, values.order, values.tile(page, kTestLayer, 0), position % kPageTokens, row.data(),
                    16);
      };
      const auto before = attend(*ops, shape, {&rows, 1}, pool, q, q);
      change(first - 1, NAN);
      EXPECT_EQ(before, attend(*ops, shape, {&rows, 1}, pool, q, q)) << ops->name << window;
      change(first, 100.f);
      EXPECT_FALSE(before == attend(*ops, shape, {&rows, 1}, pool, q, q)) << ops->name << window;
    }
  }
}

// In its own dimension and no other, whether one query reads the page or many do.
TEST(Attention, ValuesThatAreNotFiniteStaySo) {
  ThreadPool pool(1);
  for (const std::int64_t heads : {1, 3, 5}) {
    const CacheShape shape{.q_heads = heads, .kv_heads = 1, .key_dim = 32, .value_dim = 96};
    TestSequence sequence(shape, 100, 1);
    std::vector<float> value(96, 0.5f);
    value[70] = INFINITY;
    value[81] = NAN;
    value[94] = 0x1p-20f;  // below what f16 holds normally
    const KvStreamLayout& values = sequence.group().wide.values;
    write_token(values.format, values.order, values.tile(sequence.entries()[1].wide, kTestLayer, 0), 8, value.data(),
                96);
    for (const std::int64_t rows : {1, 8}) {
      const KvRows all{0, rows, 100 - rows, sequence.table()};
      const auto q = random_floats(rows * heads * 32, 3);
      const auto truth = attend(ref_ops(), shape, {&all, 1}, pool, q, q).out;
      for (const Ops* ops : attention_ops()) {
        const auto fast = attend(*ops, shape, {&all, 1}, pool, q, q).out;
        for (std::size_t i = 0; i < truth.size(); ++i) {
          ASSERT_EQ(std::fpclassify(truth[i]), std::fpclassify(fast[i]))
              << ops->name << " " << heads << " heads, " << i;
          if (!std::isfinite(truth[i])) continue;
          ASSERT_NEAR(truth[i], fast[i], kRoundedTolerance) << ops->name << " " << i;
        }
      }
    }
  }
}

TEST(Score, AgreesWithTheReference) {
  ThreadPool pool(2);
  for (const KvFormat format : {KvFormat::f32, KvFormat::q8, KvFormat::k2}) {
    for (const std::int64_t kept : {0, 40, 530}) {
      const CacheShape shape{.q_heads = 6, .kv_heads = 2, .key_dim = 20, .value_dim = 16, .keys = format};
      const std::int64_t length = 1100, rows = 40, first_position = kept > 0 ? 512 + 32 : 0;
      const TestSequence sequence(shape, length, 1, kept, first_position);
      const KvRows all{0, rows, length - rows, sequence.table()};
      const auto q = random_floats(rows * 6 * 20, 3);
      const auto attention = attend(ref_ops(), shape, {&all, 1}, pool, q, q);
      const std::int64_t slots = kept + length - first_position;
      const float scale = 1.f / std::sqrt(20.f);
      const auto score = [&](const Ops& ops, std::int64_t cut) {
        std::vector<float> sums(static_cast<std::size_t>(2 * slots), 0.5f);
        const KvRows parts[]{{0, cut, length - rows, sequence.table()},
                             {cut, rows - cut, length - rows + cut, sequence.table()}};
        for (const KvRows& part : parts) {
          if (part.rows == 0) continue;
          // What a call adds to has as many slots as it sees.
          const std::int64_t seen = slots - (length - part.first_position - part.rows);
          std::vector<float> part_sums;
          for (std::int64_t h = 0; h < 2; ++h)
            part_sums.insert(part_sums.end(), sums.begin() + h * slots, sums.begin() + h * slots + seen);
          ops.score({q.data(),
                     attention.log_sum_exp.data(),
                     {&sequence.group(), kTestLayer, {&part, 1}},
                     6,
                     scale,
                     0,
                     part_sums.data()},
                    pool);
          for (std::int64_t h = 0; h < 2; ++h)
            std::copy_n(part_sums.begin() + h * seen, seen, sums.begin() + h * slots);
        }
        return sums;
      };
      const auto truth = score(ref_ops(), 0);
      for (const Ops* ops : fast_ops()) {
        const auto fast = score(*ops, 0);
        EXPECT_LT(largest_difference(truth, fast), 1e-4f) << ops->name << " kept " << kept;
        EXPECT_EQ(fast, score(*ops, 13)) << "sums depend on how rows are cut into calls";
      }
    }
  }
}

}  // namespace
}  // namespace quire
