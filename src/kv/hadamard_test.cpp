#include "kv/hadamard.h"

#include <gtest/gtest.h>

#include <bit>

#include "kv/format_test_support.h"

namespace quire {
namespace {

using namespace testing_support;

TEST(Hadamard, IsTheMatrixOfSigns) {
  for (const std::int64_t dim : {1, 2, 8, 20, 64, 72, 96}) {
    const std::int64_t block = hadamard_block(dim);
    EXPECT_EQ(dim % block, 0);
    EXPECT_EQ(dim / block % 2, 1);
    const auto x = gaussian(dim, 1);
    auto turned = x;
    hadamard(turned.data(), dim);
    for (std::int64_t i = 0; i < dim; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < block; ++j) {
        const bool negative = std::popcount(static_cast<std::uint64_t>(i % block & j)) % 2 == 1;
        const double value = x[static_cast<std::size_t>(i / block * block + j)];
        sum += negative ? -value : value;
      }
      EXPECT_NEAR(turned[static_cast<std::size_t>(i)], sum / std::sqrt(static_cast<double>(block)), 1e-5);
    }
  }
}

TEST(Hadamard, IsItsOwnInverseAndKeepsDotProducts) {
  for (const std::int64_t dim : kDims) {
    const auto a = gaussian(dim, 2), b = gaussian(dim, 3);
    auto turned_a = a, turned_b = b;
    hadamard(turned_a.data(), dim);
    hadamard(turned_b.data(), dim);
    double before = 0, after = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      before += a[i] * b[i];
      after += turned_a[i] * turned_b[i];
    }
    EXPECT_NEAR(before, after, 1e-4);
    hadamard(turned_a.data(), dim);
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(turned_a[i], a[i], 1e-5);
  }
}

// Why rotated formats rotate: an outlier dimension costs all others their precision.
TEST(Hadamard, TamesAnOutlierDimension) {
  auto rows = make_rows(Data::outlier, 64, 4);
  const auto error = [](const std::vector<float>& x) {
    const auto result = round_trip(KvFormat::q4, KvOrder::rows, x);
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow(x[i] - result[i], 2);
    return sum;
  };
  const double plain = error(rows);
  for (std::size_t t = 0; t < 32; ++t) hadamard(&rows[t * 64], 64);
  EXPECT_LT(error(rows), plain / 2);
}

}  // namespace
}  // namespace quire
