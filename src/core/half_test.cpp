#include "core/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace quire {
namespace {

TEST(Half, EveryF16SurvivesTheRoundTrip) {
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const float f = f16_to_f32(static_cast<f16_t>(h));
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(f))));
    } else {
      ASSERT_EQ(f32_to_f16(f), h);
    }
  }
}

// The definition of rounding to nearest even, between every two neighbours.
TEST(Half, RoundsToNearestEven) {
  for (std::uint32_t h = 0; h < 0x7BFF; ++h) {
    const float low = f16_to_f32(static_cast<f16_t>(h));
    const float high = f16_to_f32(static_cast<f16_t>(h + 1));
    const float middle = low + (high - low) / 2;  // exact
    const auto even = static_cast<f16_t>((h & 1) ? h + 1 : h);
    ASSERT_EQ(f32_to_f16(middle), even) << h;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, low)), h);
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, high)), h + 1);
    ASSERT_EQ(f32_to_f16(-middle), even | 0x8000);
  }
}

TEST(Half, Extremes) {
  EXPECT_EQ(f32_to_f16(65504.f), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520.f), 0x7C00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::infinity()), 0x7C00);
  EXPECT_EQ(f32_to_f16(1e-10f), 0);
  EXPECT_EQ(f32_to_f16(-0.f), 0x8000);
}

TEST(Half, Bf16) {
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const float f = bf16_to_f32(static_cast<bf16_t>(h));
    if (!std::isnan(f)) {
      ASSERT_EQ(f32_to_bf16(f), h);
    }
  }
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F808000u)), 0x3F80);  // tie, to even
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F818000u)), 0x3F82);
}

}  // namespace
}  // namespace quire
