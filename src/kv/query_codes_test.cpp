#include "kv/query_codes.h"

#include <gtest/gtest.h>

#include <vector>

#include "kv/format_test_support.h"

namespace quire {
namespace {

struct Rounded {
  std::vector<std::int8_t> codes;
  float scale;
};

Rounded rounded(const std::vector<float>& x) {
  Rounded result{std::vector<std::int8_t>(x.size(), 99), 0};
  result.scale = round_query(x.data(), x.size(), result.codes.data());
  return result;
}

TEST(QueryCodes, NearestWholeNumbersUpTo63) {
  const auto x = testing_support::gaussian(32, 3);
  const Rounded r = rounded(x);
  int largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(r.scale * r.codes[i], x[i], r.scale * 0.5001f);
    largest = std::max(largest, std::abs(static_cast<int>(r.codes[i])));
  }
  EXPECT_EQ(largest, 63);
}

TEST(QueryCodes, TheSignIsKept) {
  std::vector<float> x(8, 0.f);
  x[2] = -2.f;
  x[5] = 1.f;
  const Rounded r = rounded(x);
  EXPECT_EQ(r.codes, (std::vector<std::int8_t>{0, 0, -63, 0, 0, 32, 0, 0}));  // 31.5 goes to the even neighbour
  EXPECT_FLOAT_EQ(r.scale, 2.f / 63);
}

TEST(QueryCodes, ZerosAndWhatIsNearlyNothing) {
  for (const float tiny : {0.f, 1e-40f, -1e-31f}) {
    const Rounded r = rounded(std::vector<float>(32, tiny));
    EXPECT_EQ(r.codes, std::vector<std::int8_t>(32, 0));
    EXPECT_EQ(r.scale, 0.f);
  }
}

TEST(QueryCodes, WhatIsNotFiniteShows) {
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    for (const std::size_t at : {0u, 31u}) {
      std::vector<float> x(32, 1.f);
      x[at] = bad;
      const Rounded r = rounded(x);
      EXPECT_EQ(r.codes, std::vector<std::int8_t>(32, 0));
      EXPECT_TRUE(std::isnan(r.scale));
    }
  }
}

}  // namespace
}  // namespace quire
