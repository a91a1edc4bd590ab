#include "kernels/ref/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace quire {
namespace {

// What scripts/oracles/quant_fixtures.py writes: | values u32 | bytes u32 | blocks | float32 values |
struct Fixture {
  std::vector<std::byte> blocks;
  std::vector<float> values;
};

Fixture read_fixture(const DTypeInfo& type) {
  const auto path = std::filesystem::path(QUIRE_TEST_DATA) / "quants" / (std::string(type.name) + ".bin");
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  std::uint32_t sizes[2] = {};
  file.read(reinterpret_cast<char*>(sizes), sizeof(sizes));
  Fixture fixture{std::vector<std::byte>(sizes[1]), std::vector<float>(sizes[0])};
  file.read(reinterpret_cast<char*>(fixture.blocks.data()), static_cast<std::streamsize>(sizes[1]));
  file.read(reinterpret_cast<char*>(fixture.values.data()), static_cast<std::streamsize>(sizes[0] * sizeof(float)));
  EXPECT_TRUE(file.good()) << path;
  return fixture;
}

std::vector<DTypeInfo> all_types() {
  std::vector<DTypeInfo> types;
  for (std::uint32_t number = 0; number < 256; ++number) {
    if (const auto type = find_dtype(number)) types.push_back(*type);
  }
  return types;
}

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

class Dequantize : public testing::TestWithParam<DTypeInfo> {};

// Equal to the last bit, not merely close: every operation is one correctly rounded float operation,
// in the same order on both sides. A compiler that fuses the multiplications and additions of this
// file's subject would break that, and would make files read differently on different machines.
TEST_P(Dequantize, GivesTheBitsOfTheGgufPackage) {
  const DTypeInfo& type = GetParam();
  const Fixture fixture = read_fixture(type);
  const std::size_t count = fixture.values.size();
  ASSERT_GE(count, 4 * type.block_size);
  ASSERT_EQ(fixture.blocks.size(), count / type.block_size * type.block_bytes);

  std::vector<float> out(count);
  dequantize(type.type, fixture.blocks.data(), out.data(), static_cast<std::int64_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(bits(out[i]), bits(fixture.values[i]))
        << "value " << i << ": " << out[i] << " instead of " << fixture.values[i];
  }
}

TEST_P(Dequantize, StopsAtCountAndReadsUnalignedSources) {
  const DTypeInfo& type = GetParam();
  const Fixture fixture = read_fixture(type);
  std::vector<std::byte> shifted(1 + type.block_bytes);
  std::memcpy(shifted.data() + 1, fixture.blocks.data() + type.block_bytes, type.block_bytes);

  std::vector<float> out(type.block_size + 1, -77.0f);
  dequantize(type.type, shifted.data() + 1, out.data(), type.block_size);
  for (std::size_t i = 0; i < type.block_size; ++i) {
    ASSERT_EQ(bits(out[i]), bits(fixture.values[type.block_size + i])) << "value " << i;
  }
  EXPECT_EQ(out.back(), -77.0f);
}

INSTANTIATE_TEST_SUITE_P(AllTypes, Dequantize, testing::ValuesIn(all_types()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(DequantizeByHand, Q4_0) {
  // Scale 0.5 (f16 0x3800); nibbles 0 and 15 in the first byte, 8 everywhere else.
  std::vector<std::byte> block(18, std::byte{0x88});
  block[0] = std::byte{0x00};
  block[1] = std::byte{0x38};
  block[2] = std::byte{0xF0};
  std::vector<float> out(32);
  dequantize(DType::q4_0, block.data(), out.data(), 32);
  std::vector<float> expected(32, 0.0f);
  expected[0] = 0.5f * -8;
  expected[16] = 0.5f * 7;
  EXPECT_EQ(out, expected);
}

TEST(DequantizeDeathTest, RefusesPartOfABlock) {
  const std::vector<std::byte> block(18);
  std::vector<float> out(32);
  EXPECT_DEATH(dequantize(DType::q4_0, block.data(), out.data(), 31), "part of a block");
}

}  // namespace
}  // namespace quire
