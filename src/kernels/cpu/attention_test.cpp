#include <gtest/gtest.h>

#include <limits>

#include "kernels/cpu/kernel_test_support.h"

namespace quire {
namespace {

using namespace testing_support;

struct Shape {
  std::int64_t q_heads, kv_heads, head_dim;
};

// A cache of `capacity` positions of which `length` hold data; the rest, and the gaps between, are NaN.
struct Cache {
  Cache(const Shape& s, std::int64_t length, std::int64_t capacity, KvType type = KvType::f16)
      : stride(s.head_dim + 8) {
    fill(keys, view.keys, s, length, capacity, type, 1);
    fill(values, view.values, s, length, capacity, type, 2);
  }
  void fill(std::vector<std::byte>& bytes, KvStream& stream, const Shape& s, std::int64_t length, std::int64_t capacity,
            KvType type, unsigned seed) {
    bytes.resize(static_cast<std::size_t>(s.kv_heads * capacity * stride * bytes_per_value(type)), std::byte{0xFF});
    stream = {bytes.data(), type, capacity * stride, stride};
    const auto data = random_floats(s.kv_heads * length * s.head_dim, seed);
    const float* from = data.data();
    for (std::int64_t h = 0; h < s.kv_heads; ++h) {
      for (std::int64_t t = 0; t < length; ++t) {
        for (std::int64_t d = 0; d < s.head_dim; ++d) set(stream, h, t, d, *from++);
      }
    }
  }
  static void set(const KvStream& stream, std::int64_t h, std::int64_t t, std::int64_t d, float x) {
    if (stream.type == KvType::f32) reinterpret_cast<float*>(stream.at(h, t))[d] = x;
    if (stream.type == KvType::f16) reinterpret_cast<f16_t*>(stream.at(h, t))[d] = f32_to_f16(x);
  }
  std::int64_t stride;
  std::vector<std::byte> keys, values;  // 0xFF bytes are NaN in both types
  KvLayerView view{};
};

std::vector<float> attend(const Ops& ops, const Shape& s, const Cache& cache, const std::vector<float>& q,
                          std::int64_t first, std::int64_t rows, ThreadPool& pool, std::int64_t window = 0,
                          float softcap = 0) {
  std::vector<float> out(static_cast<std::size_t>(rows * s.q_heads * s.head_dim), NAN);
  const float scale = 1.f / std::sqrt(static_cast<float>(s.head_dim));
  ops.attention(
      {q.data(), out.data(), cache.view, rows, first, s.q_heads, s.kv_heads, s.head_dim, window, scale, softcap}, pool);
  return out;
}

const Shape kShapes[] = {{9, 3, 64}, {4, 1, 256}, {2, 2, 16}, {6, 2, 20}, {8, 1, 72}};

TEST(Attention, AgreesWithTheReferenceAtTheEdges) {
  ThreadPool pool(2);
  for (const Shape& s : kShapes) {
    for (const std::int64_t length : {1, 2, 31, 32, 33, 64, 511, 512, 513, 1100}) {
      for (const std::int64_t rows : {std::int64_t{1}, std::min<std::int64_t>(length, 40)}) {
        for (const std::int64_t window : {0, 1, 8, 33, 600}) {
          const KvType type = window == 8 ? KvType::f32 : KvType::f16;
          const Cache cache(s, length, length + 40, type);
          const auto q = random_floats(rows * s.q_heads * s.head_dim, 3);
          const auto truth = attend(ref_ops(), s, cache, q, length - rows, rows, pool, window);
          for (const Ops* ops : fast_ops()) {
            EXPECT_LT(largest_difference(truth, attend(*ops, s, cache, q, length - rows, rows, pool, window)), 2e-5f)
                << ops->name << " dim " << s.head_dim << " length " << length << " rows " << rows << " window "
                << window;
          }
        }
      }
    }
  }
}

TEST(Attention, Softcap) {
  ThreadPool pool(2);
  const Shape s{4, 2, 32};
  const Cache cache(s, 70, 80);
  const auto q = random_floats(5 * 4 * 32, 3, 8.f);
  const auto truth = attend(ref_ops(), s, cache, q, 65, 5, pool, 0, 5.f);
  EXPECT_GT(largest_difference(truth, attend(ref_ops(), s, cache, q, 65, 5, pool)), 0.01f) << "the cap has no effect";
  for (const Ops* ops : fast_ops()) {
    EXPECT_LT(largest_difference(truth, attend(*ops, s, cache, q, 65, 5, pool, 0, 5.f)), 3e-5f) << ops->name;
  }
}

// A window of W reads W tokens: changing the one before it changes nothing, changing its first does.
TEST(Attention, WindowIsExact) {
  ThreadPool pool(1);
  const Shape s{2, 1, 16};
  for (const Ops* ops : {&ref_ops(), &cpu_ops(best_isa())}) {
    for (const std::int64_t window : {1, 5, 32, 33}) {
      const std::int64_t position = 99, first = position - window + 1;
      Cache cache(s, 100, 100);
      const auto q = random_floats(2 * 16, 3);
      const auto before = attend(*ops, s, cache, q, position, 1, pool, window);
      Cache::set(cache.view.values, 0, first - 1, 0, NAN);
      EXPECT_EQ(before, attend(*ops, s, cache, q, position, 1, pool, window)) << ops->name << window;
      Cache::set(cache.view.values, 0, first, 0, 100.f);
      EXPECT_NE(before, attend(*ops, s, cache, q, position, 1, pool, window)) << ops->name << window;
    }
  }
}

// Prefill in any chunks and decode, on any number of threads: the same bits.
TEST(Attention, ARowsBitsDependOnItsPositionAlone) {
  for (const Shape& s : kShapes) {
    const std::int64_t length = 1100, row = s.q_heads * s.head_dim;
    const Cache cache(s, length, length);
    const auto q = random_floats(length * row, 3);
    for (const Ops* ops : fast_ops()) {
      ThreadPool one(1), five(5);
      for (const std::int64_t window : {0, 700}) {
        const auto together = attend(*ops, s, cache, q, 0, length, one, window);
        for (const std::int64_t p : {0, 31, 32, 511, 512, 1099}) {
          const std::vector<float> single(q.begin() + p * row, q.begin() + (p + 1) * row);
          const auto alone = attend(*ops, s, cache, single, p, 1, five, window);
          ASSERT_EQ(0, std::memcmp(alone.data(), together.data() + p * row, static_cast<std::size_t>(row) * 4))
              << ops->name << " position " << p << " window " << window;
        }
      }
    }
  }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  ThreadPool pool(2);
  const Shape s{2, 1, 16};
  const Cache cache(s, 600, 600);
  const auto q = random_floats(2 * 16, 3, 300.f);
  const auto truth = attend(ref_ops(), s, cache, q, 599, 1, pool);
  for (const Ops* ops : fast_ops())
    EXPECT_LT(largest_difference(truth, attend(*ops, s, cache, q, 599, 1, pool)), 1e-3f);
}

}  // namespace
}  // namespace quire
