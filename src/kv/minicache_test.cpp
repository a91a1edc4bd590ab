#include "kv/minicache.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "kv/format_test_support.h"

namespace quire::minicache {
namespace {

using testing_support::gaussian;
using Row = std::vector<float>;

constexpr double kRounding = 2e-7;  // relative: a direction and a product, each rounded to 24 bits
constexpr double kPi = std::numbers::pi;

double norm(const Row& row) {
  double squares = 0;
  for (const float x : row) squares += double{x} * x;
  return std::sqrt(squares);
}

double distance(const Row& a, const Row& b) {
  Row difference;
  for (std::size_t i = 0; i < a.size(); ++i) difference.push_back(a[i] - b[i]);
  return norm(difference);
}

Row scaled(Row row, float by) {
  for (float& x : row) x *= by;
  return row;
}

// A row at this angle from `a`, of this length.
Row turned(const Row& a, double angle, double length, unsigned seed) {
  const Row noise = gaussian(std::ssize(a), seed);
  double along = 0;
  for (std::size_t i = 0; i < a.size(); ++i) along += double{a[i]} * noise[i];
  along /= norm(a) * norm(a);
  std::vector<double> across;
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    across.push_back(noise[i] - along * a[i]);
    squares += across.back() * across.back();
  }
  Row row;
  for (std::size_t i = 0; i < a.size(); ++i) {
    row.push_back(static_cast<float>(
        length * (std::cos(angle) * a[i] / norm(a) + std::sin(angle) * across[i] / std::sqrt(squares))));
  }
  return row;
}

TEST(MiniCache, IsOffByTheAngleAndNothingElse) {
  unsigned seed = 1;
  for (const std::int64_t dim : {2, 3, 64, 128}) {
    for (const double angle : {1e-5, 0.1, 0.7, 1.6, 2.5, 3.1}) {
      for (const double t : {0.0, 0.3, 0.5, 0.6, 1.0}) {
        const Row a = gaussian(dim, ++seed), b = turned(a, angle, 3 * norm(a), ++seed);
        const MergedRow merged = merge(a, b, t);
        EXPECT_NEAR(norm(merged.direction), 1, kRounding);
        EXPECT_NEAR(distance(restore(merged.direction, merged.magnitude_a), a) / norm(a), 2 * std::sin(t * angle / 2),
                    5 * kRounding)
            << dim << " " << angle << " " << t;
        EXPECT_NEAR(distance(restore(merged.direction, merged.magnitude_b), b) / norm(b),
                    2 * std::sin((1 - t) * angle / 2), 5 * kRounding)
            << dim << " " << angle << " " << t;
      }
    }
  }
}

TEST(MiniCache, ParallelRowsComeBack) {
  for (const std::int64_t dim : {1, 8, 128}) {
    const Row a = gaussian(dim, 5);
    for (const float by : {1.f, 0.01f, 700.f}) {
      const Row b = scaled(a, by);
      const MergedRow merged = merge(a, b, 0.6);
      EXPECT_LT(distance(restore(merged.direction, merged.magnitude_a), a), kRounding * norm(a));
      EXPECT_LT(distance(restore(merged.direction, merged.magnitude_b), b), kRounding * norm(b));
      EXPECT_LT(angular_distance(a, b), 1e-7);
    }
  }
}

TEST(MiniCache, MagnitudesAreKeptWhateverTheAngle) {
  unsigned seed = 100;
  for (const double angle : {0.0, 0.5, 1.5, 3.0, kPi}) {
    const Row a = gaussian(64, ++seed), b = turned(a, angle, 0.2 * norm(a), ++seed);
    for (const double t : {0.0, 0.5, 1.0}) {
      const MergedRow merged = merge(a, b, t);
      EXPECT_EQ(merged.magnitude_a, static_cast<float>(norm(a)));
      EXPECT_EQ(merged.magnitude_b, static_cast<float>(norm(b)));
      EXPECT_NEAR(norm(restore(merged.direction, merged.magnitude_a)) / norm(a), 1, kRounding);
      EXPECT_NEAR(norm(restore(merged.direction, merged.magnitude_b)) / norm(b), 1, kRounding);
    }
  }
}

TEST(MiniCache, IsSymmetricInTheMiddle) {
  unsigned seed = 200;
  for (const double angle : {0.0, 0.2, 1.0, 3.0, kPi}) {
    const Row a = gaussian(32, ++seed), b = turned(a, angle, 2 * norm(a), ++seed);
    const MergedRow one = merge(a, b, 0.5), other = merge(b, a, 0.5);
    EXPECT_EQ(one.magnitude_a, other.magnitude_b);
    EXPECT_EQ(one.magnitude_b, other.magnitude_a);
    EXPECT_LT(distance(one.direction, other.direction), kRounding) << angle;
    const Row early = merge(a, b, 0.3).direction, late = merge(b, a, 0.7).direction;
    EXPECT_LT(distance(early, late), kRounding) << angle;
  }
}

TEST(MiniCache, OppositeRowsTakeTheLongerOnesDirection) {
  const Row a = gaussian(16, 7), b = scaled(a, -3.f);
  EXPECT_NEAR(angular_distance(a, b), 1, 1e-7);
  for (const double t : {0.0, 0.5, 1.0}) {
    const MergedRow merged = merge(a, b, t);
    EXPECT_LT(distance(restore(merged.direction, merged.magnitude_b), b), kRounding * norm(b));
    EXPECT_NEAR(distance(restore(merged.direction, merged.magnitude_a), a), 2 * norm(a), 1e-6);
  }
}

TEST(MiniCache, RowsOfZerosComeBack) {
  const Row zeros(8, 0.f), b = gaussian(8, 9);
  for (const double t : {0.0, 0.5, 1.0}) {
    EXPECT_EQ(restore(merge(zeros, zeros, t).direction, merge(zeros, zeros, t).magnitude_b), zeros);
    const MergedRow merged = merge(zeros, b, t);
    EXPECT_EQ(restore(merged.direction, merged.magnitude_a), zeros);
    EXPECT_LT(distance(restore(merged.direction, merged.magnitude_b), b), kRounding * norm(b));
  }
  EXPECT_EQ(angular_distance(zeros, b), 0);
}

TEST(MiniCache, DistanceIsTheAngle) {
  const Row a = gaussian(64, 11);
  for (const double angle : {1e-6, 0.01, 1.0, kPi / 2, 3.0, kPi - 1e-6}) {
    EXPECT_NEAR(angular_distance(a, turned(a, angle, 5, 12)), angle / kPi, 1e-7);
  }
  Row broken = a;
  broken[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(angular_distance(a, broken), 1);
}

TEST(MiniCache, TheFarthestStayUnmerged) {
  constexpr std::int64_t kTokens = 32, kDim = 16;
  Row a, b;
  for (unsigned token = 0; token < kTokens; ++token) {
    const Row row = gaussian(kDim, 300 + token);
    // Far: 3, 17, then 30; all others alike.
    const double angle = token == 3 ? 2.9 : token == 17 ? 2 : token == 30 ? 1.5 : 0;
    const Row other = angle > 0 ? turned(row, angle, 1, 400 + token) : row;
    a.insert(a.end(), row.begin(), row.end());
    b.insert(b.end(), other.begin(), other.end());
  }
  using Tokens = std::vector<std::int64_t>;
  EXPECT_EQ(unmerged_tokens(a, b, kDim, 0), Tokens{});
  EXPECT_EQ(unmerged_tokens(a, b, kDim, 0.01), Tokens{3});
  EXPECT_EQ(unmerged_tokens(a, b, kDim, 0.05), (Tokens{3, 17}));
  EXPECT_EQ(unmerged_tokens(a, b, kDim, 3.0 / 32), (Tokens{3, 17, 30}));
  EXPECT_EQ(unmerged_tokens(a, b, kDim, 5.0 / 32), (Tokens{0, 1, 3, 17, 30})) << "of equals the first";
  EXPECT_EQ(std::ssize(unmerged_tokens(a, b, kDim, 1)), kTokens);
  EXPECT_EQ(unmerged_count(20, 0.05), 1);
  EXPECT_EQ(unmerged_count(21, 0.05), 2);
}

TEST(MiniCache, Bytes) {
  // 32 tokens, head of 128, 16 bits, 5 %: 8,962 where two tiles take 16,384.
  EXPECT_EQ(pair_bytes(32, unmerged_count(32, 0.05), 128, 2), 32 * 128 * 2 + 32 * 8 + 2 * (128 * 2 + 1));
  EXPECT_EQ(pair_bytes(32, 2, 128, 2), 8962);
  EXPECT_EQ(pair_bytes(32, 0, 64, 4), 32 * (64 * 4 + 8));
}

}  // namespace
}  // namespace quire::minicache
