#include "kv/geometry.h"

#include <gtest/gtest.h>

#include <limits>

namespace quire {
namespace {

TEST(KvGeometry, BytesPerToken) {
  const KvGeometry smollm2{30, 3, 64};
  EXPECT_EQ(smollm2.bytes_per_token(2), 23040u);
  EXPECT_EQ(smollm2.row_values(), 192);
}

TEST(KvGeometry, OverflowIsSaid) {
  const KvGeometry wide{1 << 20, 1 << 20, 1 << 20};
  EXPECT_FALSE(wide.bytes(std::numeric_limits<std::uint64_t>::max() / 8, 2));
  EXPECT_FALSE((KvGeometry{-1, 1, 1}).bytes(1, 2));
}

}  // namespace
}  // namespace quire
