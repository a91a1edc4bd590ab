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

class Matmul : public testing::TestWithParam<DType> {};

// Quantised activations are off by at most half a step of 1/127 of their block's largest value;
// a dot product of n such errors, independent of the weights, grows like sqrt(n).
TEST_P(Matmul, AgreesWithTheReference) {
  const DType type = GetParam();
  ThreadPool pool(2);
  for (const Ops* ops : fast_ops()) {
    for (const std::int64_t outputs : {1, 3, 4, 33, 70}) {
      for (const std::int64_t cols : {info(type).block_size == 1 ? 20 : 256, 512}) {
        for (const std::int64_t rows : {1, 2, 3, 65}) {
          const Product p = make_product(type, outputs, cols, rows);
          const auto truth = multiply(ref_ops(), p, rows, pool);
          const auto fast = multiply(*ops, p, rows, pool);
          std::vector<float> w(static_cast<std::size_t>(outputs * cols));
          dequantize(type, p.bytes.data(), w.data(), outputs * cols);
          double squares = 0;
          for (const float v : w) squares += double{v} * v;
          const double weight_norm = std::sqrt(squares / static_cast<double>(outputs));  // of one row
          const bool exact = info(type).block_size == 1;
          // 5 sigma of the rounding error of x: step = 4 / 127 for values up to 4, uniform.
          const double bound = exact ? 1e-5 * weight_norm * std::sqrt(static_cast<double>(cols))
                                     : 5 * weight_norm * (4.0 / 127) / std::sqrt(12.0);
          EXPECT_LT(largest_difference(truth, fast), bound)
              << ops->name << " outputs " << outputs << " cols " << cols << " rows " << rows;
        }
      }
    }
  }
}

// Activations that int8 represents exactly leave only float rounding.
TEST_P(Matmul, ExactActivations) {
  const DType type = GetParam();
  ThreadPool pool(1);
  Product p = make_product(type, 9, 512, 3);
  std::mt19937 generator(1);
  for (std::size_t i = 0; i < p.x.size(); ++i) {
    p.x[i] = static_cast<float>(static_cast<int>(generator() % 255) - 127) / 64.f;
    if (i % 32 == 0) p.x[i] = 127.f / 64.f;  // the block's largest, so that its scale is 1/64
  }
  const auto truth = multiply(ref_ops(), p, 3, pool);
  for (const Ops* ops : fast_ops())
    EXPECT_LT(largest_difference(truth, multiply(*ops, p, 3, pool)), 2e-3f) << ops->name;
}

TEST_P(Matmul, ARowsBitsDependOnNothingElse) {
  const Product p = make_product(GetParam(), 37, 512, 70);
  for (const Ops* ops : fast_ops()) {
    ThreadPool one(1), three(3);
    const auto together = multiply(*ops, p, 70, three);
    for (const std::int64_t r : {0, 1, 2, 63, 64, 69}) {
      const auto alone = multiply(*ops, p, 1, one, r);
      for (std::size_t n = 0; n < 37; ++n) {
        ASSERT_EQ(alone[n], together[static_cast<std::size_t>(r) * 37 + n]) << ops->name << " row " << r;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Matmul, testing::ValuesIn(all_types()),
                         [](const auto& param) { return std::string(quire::info(param.param).name); });

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
