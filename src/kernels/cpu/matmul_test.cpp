#include <gtest/gtest.h>

#include "kernels/cpu/kernel_test_support.h"
#include "kernels/ref/dequantize.h"

namespace quire {
namespace {

using namespace testing_support;

struct Product {
  std::vector<std::byte> bytes;
  WeightMatrix weights;
  std::vector<float> x, bias;
};

Product make_product(DType type, std::int64_t outputs, std::int64_t cols, std::int64_t rows) {
  Product p;
  p.bytes = random_weights(type, outputs, cols, 7);
  p.weights = {type, p.bytes.data(), outputs, cols};
  p.x = random_floats(rows * cols, 8);
  p.bias = random_floats(outputs, 9);
  return p;
}

std::vector<float> multiply(const Ops& ops, const Product& p, std::int64_t rows, ThreadPool& pool,
                            std::int64_t first_row = 0) {
  std::vector<float> out(static_cast<std::size_t>(rows * p.weights.rows), NAN);
  const MatmulTarget target{&p.weights, p.bias.data(), out.data()};
  ops.matmul({p.x.data() + first_row * p.weights.cols, rows, p.weights.cols, {&target, 1}}, pool);
  return out;
}

double root_mean_square(const std::vector<float>& values) {
  double squares = 0;
  for (const float v : values) squares += double{v} * v;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

// Every way to multiply, and the largest code of an activation.
struct Way {
  const Ops* ops;
  int largest_code;
};
std::vector<Way> ways() {
  std::vector<Way> all;
  for (const Ops* ops : fast_ops()) all.push_back({ops, 32767});
  if (best_isa() == Isa::avx512) all.push_back({&byte_ops(), 127});
  return all;
}

// What a product may be off by: rounded floats, and activations off by up to half a step of 1/32767 (or 1/127) of
// their block's largest value. n such errors, independent of each other, grow like sqrt(n).
double bound(const Product& p, double largest_x, int largest_code = 32767) {
  std::vector<float> w(static_cast<std::size_t>(p.weights.rows * p.weights.cols));
  dequantize(p.weights.type, p.bytes.data(), w.data(), p.weights.rows * p.weights.cols);
  const double norm = root_mean_square(w) * std::sqrt(static_cast<double>(p.weights.cols));  // of one row
  const double floats = 2e-6 * norm * root_mean_square(p.x) * std::sqrt(static_cast<double>(p.weights.cols));
  const bool exact = info(p.weights.type).block_size == 1;
  return floats + (exact ? 0 : 5 * norm * (largest_x / largest_code) / std::sqrt(12.0));  // 5 sigma, uniform
}

// What more it may be off by where scales are whole numbers: half of one of 4095 of the largest (a little more, of
// several roundings) times the largest sum that every block can have. An overflow would be off by half of all of it.
double scale_bound(const Way& way, const Product& p, double largest_x) {
  if (way.ops->panel_layout(p.weights, /*exact=*/false) != PanelLayout::joined) return 0;
  const double largest_scale = 0.05 * (p.weights.type == DType::q4_k ? 63 : 1), largest_code = 8;
  return 0.7 / 4095 * largest_scale * largest_code * largest_x * static_cast<double>(p.weights.cols);
}

class Matmul : public testing::TestWithParam<DType> {};

TEST_P(Matmul, AgreesWithTheReference) {
  const DType type = GetParam();
  ThreadPool pool(2);
  for (const auto& [ops, largest_code] : ways()) {
    for (const std::int64_t outputs : {1, 15, 16, 33, 70}) {
      for (const std::int64_t cols : {info(type).block_size == 1 ? 20 : 256, 512}) {
        for (const std::int64_t rows : {1, 2, 3, 4, 15, 65}) {
          const Product p = make_product(type, outputs, cols, rows);
          const auto truth = multiply(ref_ops(), p, rows, pool);
          const auto fast = multiply(*ops, p, rows, pool);
          EXPECT_LT(largest_difference(truth, fast), bound(p, 4, largest_code))
              << ops->name << " outputs " << outputs << " cols " << cols << " rows " << rows;
        }
      }
    }
  }
}

// Activations that codes represent exactly leave only float rounding.
TEST_P(Matmul, ExactActivations) {
  ThreadPool pool(1);
  for (const auto& [ops, largest_code] : ways()) {
    Product p = make_product(GetParam(), 9, 512, 11);
    std::mt19937 generator(1);
    const float step = 2.f / static_cast<float>(largest_code + 1);
    for (std::size_t i = 0; i < p.x.size(); ++i) {
      const auto drawn = static_cast<int>(generator() % static_cast<unsigned>(2 * largest_code + 1)) - largest_code;
      // The block's largest is the largest code, so that the scale is the step.
      p.x[i] = step * static_cast<float>(i % 32 == 0 ? largest_code : drawn);
    }
    const auto truth = multiply(ref_ops(), p, 11, pool);
    EXPECT_LT(largest_difference(truth, multiply(*ops, p, 11, pool)),
              bound(p, 0) + scale_bound({ops, largest_code}, p, 1) / 4)
        << ops->name;
  }
}

// The largest sums a block can have: every code and every activation at its limit, all of one sign. The roundings
// of a float sum that only grows do not cancel, hence 5 times the bound; an overflow would be off by half the sum.
TEST_P(Matmul, CodesAtTheirLimits) {
  ThreadPool pool(1);
  if (info(GetParam()).block_size == 1) GTEST_SKIP() << "floats have no codes";
  for (const int code : {0x00, 0x7f, 0x80, 0xff}) {
    for (const float x : {-1.f, 1.f}) {
      Product p = make_product(GetParam(), 5, 512, 3);
      p.bytes = filled_weights(GetParam(), 5, 512, static_cast<std::byte>(code));
      p.weights.data = p.bytes.data();
      p.x.assign(p.x.size(), x);
      const auto truth = multiply(ref_ops(), p, 3, pool);
      for (const Way& way : ways()) {
        EXPECT_LT(largest_difference(truth, multiply(*way.ops, p, 3, pool)),
                  5 * bound(p, 0) + scale_bound(way, p, 1) + 1e-6)
            << way.ops->name << " code " << code << " x " << x;
      }
    }
  }
}

// Blocks that differ as much as activations do: each keeps what it adds, and one of zeros or with an infinity is no
// division by zero.
TEST_P(Matmul, BlocksOfAllSizes) {
  ThreadPool pool(1);
  for (const Way& way : ways()) {
    Product p = make_product(GetParam(), 16, 512, 9);
    for (std::size_t i = 0; i < p.x.size(); ++i) {
      const std::size_t block = i / 32 % 16, row = i / 512;
      p.x[i] *= block == 3 ? 0.f : block == 5 ? 1.f : std::ldexp(1.f, -static_cast<int>(block + row));
      if (row == 8) p.x[i] = 0;
    }
    const auto truth = multiply(ref_ops(), p, 9, pool);
    const auto fast = multiply(*way.ops, p, 9, pool);
    EXPECT_LT(largest_difference(truth, fast), bound(p, 4, way.largest_code)) << way.ops->name;
    for (std::size_t n = 0; n < 16; ++n) EXPECT_EQ(fast[8 * 16 + n], p.bias[n]) << way.ops->name;
    p.x[512 + 7] = INFINITY;
    const auto infinite = multiply(*way.ops, p, 9, pool);
    for (std::size_t i = 0; i < infinite.size(); ++i) {
      const bool spoilt = i / 16 == 1;
      EXPECT_EQ(spoilt, !std::isfinite(infinite[i])) << way.ops->name << " " << i;
    }
  }
}

TEST_P(Matmul, PackedBeforehandIsTheSame) {
  ThreadPool pool(2);
  for (const auto& [ops, largest_code] : ways()) {
    for (const std::int64_t outputs : {1, 16, 37, 130}) {
      Product p = make_product(GetParam(), outputs, 512, 5);
      const auto as_it_is = multiply(*ops, p, 5, pool);
      const PanelLayout layout = ops->panel_layout(p.weights, /*exact=*/false);
      std::vector<std::byte> panels(ops->packed_bytes(p.weights, layout));
      if (panels.empty()) GTEST_SKIP() << "floats are not packed";
      ops->pack(p.weights, layout, panels.data(), pool);
      p.weights.panels[static_cast<std::size_t>(layout)] = panels.data();
      std::ranges::fill(p.bytes, std::byte{0xff});
      EXPECT_EQ(as_it_is, multiply(*ops, p, 5, pool)) << ops->name << " outputs " << outputs;
    }
  }
}

// Alone, in a tile or among many.
TEST_P(Matmul, ARowsBitsDependOnNothingElse) {
  const std::int64_t cols = info(GetParam()).block_size == 256 ? 512 : 544;
  const Product p = make_product(GetParam(), 37, cols, 70);
  for (const auto& [ops, largest_code] : ways()) {
    ThreadPool one(1), three(3);
    const auto together = multiply(*ops, p, 70, three);
    for (const std::int64_t r : {0, 1, 2, 63, 64, 67, 69}) {
      for (const std::int64_t rows : {1, 2, 3, 4}) {
        if (r + rows > 70) continue;
        const auto few = multiply(*ops, p, rows, one, r);
        const std::vector<float> same(together.begin() + r * 37, together.begin() + (r + rows) * 37);
        ASSERT_EQ(few, same) << ops->name << " row " << r << " rows " << rows;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Matmul, testing::ValuesIn(all_types()),
                         [](const auto& param) { return std::string(quire::info(param.param).name); });

// Sums of as many blocks as are added before they become floats, each as large as it can be: the largest scale, codes
// of -8 or 7 and bytes of 127 throughout.
TEST(MatmulLimits, SumsOfJoinedBlocksFit) {
  if (best_isa() != Isa::avx512) GTEST_SKIP() << "no products of bytes here";
  ThreadPool pool(1);
  for (const DType type : {DType::q4_0, DType::q4_1}) {
    for (const int code : {0x00, 0xff}) {
      Product p = make_product(type, 3, 4096, 2);
      const auto block_bytes = static_cast<std::size_t>(info(type).block_bytes);
      p.bytes.assign(p.bytes.size(), static_cast<std::byte>(code));
      for (std::size_t at = 0; at < p.bytes.size(); at += block_bytes) {
        const f16_t scale = f32_to_f16(0.5f), min = f32_to_f16(-64.f);
        std::memcpy(p.bytes.data() + at, &scale, 2);
        if (type == DType::q4_1) std::memcpy(p.bytes.data() + at + 2, &min, 2);
      }
      p.weights.data = p.bytes.data();
      for (std::size_t i = 0; i < p.x.size(); ++i) p.x[i] = i < 4096 ? 1.f : -1.f;
      ASSERT_EQ(byte_ops().panel_layout(p.weights, false), PanelLayout::joined);
      const auto truth = multiply(ref_ops(), p, 2, pool), fast = multiply(byte_ops(), p, 2, pool);
      for (std::size_t i = 0; i < truth.size(); ++i) {
        EXPECT_NEAR(fast[i], truth[i], 1e-3 * std::abs(truth[i])) << quire::info(type).name << " code " << code;
      }
    }
  }
}

TEST(MatmulTargets, WhatIsAskedToBeExactIsNotRoundedToEightBits) {
  if (best_isa() != Isa::avx512) GTEST_SKIP() << "no products of bytes here";
  ThreadPool pool(2);
  const Product p = make_product(DType::q4_1, 40, 256, 5);
  std::vector<float> exact(40 * 5);
  const MatmulTarget target{&p.weights, p.bias.data(), exact.data()};
  byte_ops().matmul({p.x.data(), 5, 256, {&target, 1}, /*exact=*/true}, pool);
  EXPECT_EQ(exact, multiply(cpu_ops(Isa::avx512), p, 5, pool));
  EXPECT_NE(exact, multiply(byte_ops(), p, 5, pool));
}

// Rows made on the way into a product, and products added to what is there: the same bits as one after the other.
TEST(MatmulTargets, MadeOnTheWayAndAddedIsTheSame) {
  ThreadPool pool(2);
  std::vector<const Ops*> all{&ref_ops()};
  for (const Way& way : ways()) all.push_back(way.ops);
  for (const Ops* ops : all) {
    for (const DType type : {DType::q4_1, DType::q8_0, DType::f16}) {
      for (const std::int64_t rows : {1, 9, 21}) {
        Product p = make_product(type, 37, 256, rows);
        const std::vector<float> gain = random_floats(256, 3), before = random_floats(37 * rows, 4);
        NormParams norm{NormParams::Kind::rms, p.x.data(), nullptr, gain.data(), nullptr, 1e-5f, rows, 256};
        ActivateParams gated{ActivateParams::Kind::silu, p.x.data(), p.x.data(), nullptr, rows, 256};
        for (const bool is_norm : {true, false}) {
          std::vector<float> made(p.x.size()), out = before;
          norm.out = gated.out = made.data();
          if (is_norm) ops->norm(norm, pool);
          if (!is_norm) ops->activate(gated, pool);
          norm.out = gated.out = nullptr;
          const MatmulTarget added{&p.weights, p.bias.data(), out.data(), /*add=*/true};
          ops->matmul({nullptr, rows, 256, {&added, 1}, false, is_norm ? &norm : nullptr, is_norm ? nullptr : &gated},
                      pool);
          Product of_made = p;
          of_made.x = made;
          of_made.weights.data = of_made.bytes.data();
          std::vector<float> expected = multiply(*ops, of_made, rows, pool);
          for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = before[i] + expected[i];
          EXPECT_EQ(out, expected) << ops->name << " " << quire::info(type).name << " rows " << rows;
        }
      }
    }
  }
}

TEST(MatmulTargets, SeveralMatricesShareOneInput) {
  ThreadPool pool(2);
  const Product a = make_product(DType::q4_1, 40, 256, 5), b = make_product(DType::f32, 7, 256, 5);
  for (const Ops* ops : fast_ops()) {
    std::vector<float> out_a(40 * 5), out_b(7 * 5);
    const MatmulTarget targets[] = {{&a.weights, nullptr, out_a.data()}, {&b.weights, b.bias.data(), out_b.data()}};
    ops->matmul({a.x.data(), 5, 256, targets}, pool);
    Product without_bias = a;
    without_bias.bias.assign(40, 0.f);
    without_bias.weights.data = without_bias.bytes.data();
    Product b_on_a = b;
    b_on_a.x = a.x;
    b_on_a.weights.data = b_on_a.bytes.data();
    EXPECT_EQ(out_a, multiply(*ops, without_bias, 5, pool));
    EXPECT_EQ(out_b, multiply(*ops, b_on_a, 5, pool));
  }
}

}  // namespace
}  // namespace quire
