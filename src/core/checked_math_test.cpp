#include "core/checked_math.h"

#include <gtest/gtest.h>

#include <limits>

namespace quire {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(CheckedSize, PlainArithmetic) {
  EXPECT_EQ((CheckedSize(3) * CheckedSize(4) + CheckedSize(5)).get(), 17u);
  EXPECT_EQ(CheckedSize(33).align_up(32).get(), 64u);
  EXPECT_EQ(CheckedSize(64).align_up(32).get(), 64u);
  EXPECT_EQ(CheckedSize(0).align_up(32).get(), 0u);
}

TEST(CheckedSize, OverflowSticks) {
  EXPECT_FALSE((CheckedSize(kMax) + CheckedSize(1)).get());
  EXPECT_FALSE((CheckedSize(kMax / 2 + 1) * CheckedSize(2)).get());
  EXPECT_FALSE(((CheckedSize(kMax) + CheckedSize(1)) * CheckedSize(0)).get());
  EXPECT_FALSE(((CheckedSize(kMax) + CheckedSize(1)) / 1000).get());
  EXPECT_FALSE(CheckedSize(kMax - 3).align_up(32).get());
}

TEST(CheckedSize, AtMost) {
  EXPECT_TRUE(CheckedSize(7).at_most(7));
  EXPECT_FALSE(CheckedSize(8).at_most(7));
  EXPECT_FALSE((CheckedSize(kMax) + CheckedSize(1)).at_most(kMax));
}

}  // namespace
}  // namespace quire
