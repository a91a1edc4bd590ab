#include "kv/format.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "core/half.h"
#include "kv/format/codebook.h"
#include "kv/format/e4m3.h"
#include "kv/format_test_support.h"

namespace quire {
namespace {

using namespace testing_support;

TEST(KvFormat, NamesAndAliases) {
  std::size_t number = 0;
  for (const KvFormatInfo& format : kv_formats()) {
    EXPECT_EQ(static_cast<std::size_t>(format.format), number++);
    EXPECT_EQ(find_kv_format(format.name), format.format);
    EXPECT_EQ(&info(format.format), &format);
  }
  EXPECT_EQ(number, 10u);
  EXPECT_EQ(find_kv_format("q8_0"), KvFormat::q8);
  EXPECT_EQ(find_kv_format("q5_0"), KvFormat::q5);
  EXPECT_EQ(find_kv_format("q4_0"), KvFormat::q4);
  EXPECT_EQ(find_kv_format("q2_0"), std::nullopt);
  EXPECT_EQ(find_kv_format(""), std::nullopt);
  EXPECT_EQ(find_kv_format("Q8"), std::nullopt);
}

TEST(KvFormat, OpenPagesAreWide) {
  EXPECT_EQ(open_format(KvFormat::f32), KvFormat::f32);
  EXPECT_EQ(open_format(KvFormat::bf16), KvFormat::bf16);
  for (const KvFormat format : {KvFormat::f16, KvFormat::fp8, KvFormat::q8, KvFormat::q5, KvFormat::k2}) {
    EXPECT_EQ(open_format(format), KvFormat::f16);
  }
}

// The table in docs/kv-layout.md.
TEST(KvFormat, BytesOfATile) {
  struct Row {
    KvFormat format;
    std::int64_t at64, at128, at256, lanes20, rows20;
  };
  const Row table[] = {
      {KvFormat::f32, 8192, 16384, 32768, 2560, 2560}, {KvFormat::f16, 4096, 8192, 16384, 1280, 1280},
      {KvFormat::bf16, 4096, 8192, 16384, 1280, 1280}, {KvFormat::fp8, 2112, 4224, 8448, 704, 704},
      {KvFormat::q8, 2112, 4224, 8448, 704, 704},      {KvFormat::q5, 1408, 2816, 5632, 464, 704},
      {KvFormat::q4, 1152, 2304, 4608, 384, 576},      {KvFormat::q2, 640, 1280, 2560, 224, 320},
      {KvFormat::k4, 1280, 2560, 5120, 400, 640},      {KvFormat::k2, 768, 1536, 3072, 240, 384},
  };
  for (const Row& row : table) {
    const auto bytes = [&](KvOrder order, std::int64_t dim) { return info(row.format).tile_bytes(order, dim); };
    for (const KvOrder order : kOrders) {
      EXPECT_EQ(bytes(order, 64), row.at64);
      EXPECT_EQ(bytes(order, 128), row.at128);
      EXPECT_EQ(bytes(order, 256), row.at256);
    }
    EXPECT_EQ(bytes(KvOrder::lanes, 20), row.lanes20);
    EXPECT_EQ(bytes(KvOrder::rows, 20), row.rows20);
  }
}

// One value, read as the drawings say, with no help from layouts.h.
float read_as_drawn(KvFormat format, KvOrder order, const std::byte* tile, std::int64_t dim, std::int64_t t,
                    std::int64_t d) {
  const bool lanes = order == KvOrder::lanes;
  const std::int64_t element = lanes ? d * 32 + t : t * dim + d;
  const auto byte = [&](std::int64_t at) { return std::to_integer<unsigned>(tile[at]); };
  const auto u16 = [&](std::int64_t at) { return static_cast<std::uint16_t>(byte(at) | byte(at + 1) << 8); };
  const std::int64_t group_size = format == KvFormat::fp8 || format == KvFormat::q8 ? 64 : 32;
  const std::int64_t groups = (dim + group_size - 1) / group_size;
  const std::int64_t scale = lanes ? d / group_size * 32 + t : t * groups + d / group_size;
  const std::int64_t line = lanes ? d : t * groups + d / 32;
  const std::int64_t lines = lanes ? dim : 32 * groups;
  const std::int64_t i = lanes ? t : d % 32;
  const auto nibble = [&] { return byte(line * 16 + i % 16) >> (i < 16 ? 0 : 4) & 15u; };
  const auto pair = [&] { return byte(line * 8 + i % 8) >> (2 * (i / 8)) & 3u; };
  switch (format) {
    case KvFormat::f32: {
      float x;
      std::memcpy(&x, tile + 4 * element, 4);
      return x;
    }
    case KvFormat::f16:
      return f16_to_f32(u16(2 * element));
    case KvFormat::bf16:
      return bf16_to_f32(u16(2 * element));
    case KvFormat::fp8:
      return bf16_to_f32(u16(32 * dim + 2 * scale)) * e4m3_to_f32(static_cast<std::uint8_t>(byte(element)));
    case KvFormat::q8:
      return bf16_to_f32(u16(32 * dim + 2 * scale)) * static_cast<float>(static_cast<std::int8_t>(byte(element)));
    case KvFormat::q5: {
      const unsigned code = nibble() | (byte(16 * lines + 4 * line + i / 8) >> (i % 8) & 1u) << 4;
      return bf16_to_f32(u16(20 * lines + 2 * scale)) * static_cast<float>(kLevels5[code]);
    }
    case KvFormat::q4:
      return bf16_to_f32(u16(16 * lines + 2 * scale)) * static_cast<float>(kLevels4[nibble()]);
    case KvFormat::q2:
      return bf16_to_f32(u16(8 * lines + 2 * scale)) * static_cast<float>(kLevels2[pair()]);
    case KvFormat::k4:
      return f16_to_f32(u16(18 * lines + 2 * line)) +
             f16_to_f32(u16(16 * lines + 2 * line)) * static_cast<float>(nibble());
    case KvFormat::k2:
      return f16_to_f32(u16(10 * lines + 2 * line)) +
             f16_to_f32(u16(8 * lines + 2 * line)) * static_cast<float>(pair());
  }
  return NAN;
}

TEST(KvFormat, BytesLieAsDrawn) {
  for (const KvFormatInfo& format : kv_formats()) {
    for (const KvOrder order : kOrders) {
      for (const std::int64_t dim : {std::int64_t{20}, std::int64_t{64}, std::int64_t{72}}) {
        SCOPED_TRACE(describe(format.format, order, dim));
        const auto tile = encoded(format.format, order, gaussian(32 * dim, 3));
        const auto rows = decoded(format.format, order, tile, dim);
        for (std::int64_t t = 0; t < 32; ++t) {
          for (std::int64_t d = 0; d < dim; ++d) {
            ASSERT_EQ(rows[static_cast<std::size_t>(t * dim + d)],
                      read_as_drawn(format.format, order, tile.data(), dim, t, d));
          }
        }
      }
    }
  }
}

TEST(KvFormat, CodebooksAscendAndAreSymmetric) {
  const auto check = [](const auto& book, int largest) {
    const std::size_t count = book.levels.size();
    EXPECT_EQ(book.levels[count - 1], largest);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(book.levels[i], -book.levels[count - 1 - i]);
      EXPECT_TRUE(i == 0 || book.levels[i] > book.levels[i - 1]);
    }
    for (std::size_t doubled = 0; doubled < 256; ++doubled) {
      std::size_t reached = 0;
      for (const auto bound : book.bounds) reached += doubled >= bound ? 1u : 0u;
      EXPECT_EQ(book.nearest[doubled], reached);
    }
  };
  check(kBook2, 127);
  check(kBook4, 120);
  check(kBook5, 127);
}

TEST(KvFormat, OneTokenAtATimeIsTheWholePage) {
  for (const KvFormatInfo& format : kv_formats()) {
    if (!format.by_token) continue;
    for (const KvOrder order : kOrders) {
      for (const std::int64_t dim : kDims) {
        SCOPED_TRACE(describe(format.format, order, dim));
        const auto rows = gaussian(32 * dim, 5);
        const auto whole = encoded(format.format, order, rows);
        std::vector<std::byte> tile(whole.size());
        std::vector<float> values(static_cast<std::size_t>(dim));
        for (std::int64_t t = 31; t >= 0; --t)
          write_token(format.format, order, tile.data(), t, &rows[static_cast<std::size_t>(t * dim)], dim);
        EXPECT_EQ(tile, whole);
        read_token(format.format, order, tile.data(), 17, dim, values.data());
        const auto all = decoded(format.format, order, tile, dim);
        EXPECT_TRUE(std::equal(values.begin(), values.end(), all.begin() + 17 * dim));
      }
    }
  }
}

TEST(KvFormatDeathTest, AFormatOfWholePagesIsNotWrittenByToken) {
  std::byte tile[2112];
  const float values[64]{};
  EXPECT_DEATH(write_token(KvFormat::q8, KvOrder::rows, tile, 0, values, 64), "by the page");
}

TEST(KvFormat, ABrokenValueBreaksItsGroupAndNoOther) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const KvFormatInfo& format : kv_formats()) {
    if (format.by_token) continue;
    for (const KvOrder order : kOrders) {
      for (const float broken : {kInfinity, -kInfinity, NAN, -NAN, 3e38f}) {
        SCOPED_TRACE(describe(format.format, order, 72));
        auto rows = gaussian(32 * 72, 6);
        const std::size_t at = 9 * 72 + 40;
        rows[at] = broken;
        const auto result = round_trip(format.format, order, rows);
        for (const auto& group : groups_of(format.format, order, 72)) {
          const bool hit = std::find(group.begin(), group.end(), at) != group.end();
          for (const std::size_t i : group) ASSERT_EQ(std::isnan(result[i]), hit);
        }
      }
    }
  }
}

TEST(KvFormat, HalfOverflowsAsIeeeSays) {
  std::vector<float> rows(32 * 20, 1.f);
  rows[5] = 65519.f;
  rows[6] = 65520.f;
  rows[7] = -1e30f;
  rows[8] = NAN;
  const auto result = round_trip(KvFormat::f16, KvOrder::lanes, rows);
  EXPECT_EQ(result[5], 65504.f);
  EXPECT_EQ(result[6], std::numeric_limits<float>::infinity());
  EXPECT_EQ(result[7], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(result[8]));
  EXPECT_EQ(result[9], 1.f);
}

TEST(KvFormat, EightBitFloatsRoundToNearestEven) {
  std::vector<float> all(0x7F);  // by code, 0 to 448
  for (std::size_t code = 0; code < all.size(); ++code) all[code] = e4m3_to_f32(static_cast<std::uint8_t>(code));
  EXPECT_EQ(all[1], 0x1p-9f);
  EXPECT_EQ(all[8], 0x1p-6f);
  EXPECT_EQ(all[0x7E], 448.f);
  EXPECT_TRUE(std::isnan(e4m3_to_f32(0x7F)));
  for (std::size_t code = 0; code < all.size(); ++code) {
    EXPECT_EQ(f32_to_e4m3(all[code]), code);
    EXPECT_EQ(f32_to_e4m3(-all[code]), code | 0x80);
    if (code == 0) continue;
    const float middle = (all[code - 1] + all[code]) / 2;
    const std::size_t even = code % 2 == 0 ? code : code - 1;
    EXPECT_EQ(f32_to_e4m3(middle), even);
    EXPECT_EQ(f32_to_e4m3(std::nextafter(middle, 0.f)), code - 1);
    EXPECT_EQ(f32_to_e4m3(std::nextafter(middle, 1000.f)), code);
  }
  EXPECT_EQ(f32_to_e4m3(1e30f), 0x7E);
  EXPECT_EQ(f32_to_e4m3(-std::numeric_limits<float>::infinity()), 0xFE);
  EXPECT_EQ(f32_to_e4m3(NAN) & 0x7F, 0x7F);
}

// Names of pages and files on disk depend on these bits, whatever the compiler and the machine.
TEST(KvFormat, BitsAreFrozen) {
  std::vector<float> rows;
  std::uint32_t state = 12345;
  const auto next = [&state] { return static_cast<int>((state = state * 1664525u + 1013904223u) >> 20) - 2048; };
  while (rows.size() < 32 * 72) rows.push_back(static_cast<float>(next() + next() + next() + next()) * 0x1p-11f);
  const std::uint32_t expected[10][2] = {
      {0x48D1735Eu, 0x6ECA6622u}, {0xD95549DEu, 0x3C4BA7B2u}, {0xABF8A945u, 0xA894D715u}, {0x2B233C18u, 0x360CF8A2u},
      {0x10FAF678u, 0x55B89526u}, {0x307882EDu, 0x8FBBED98u}, {0xA5927094u, 0x1E44FDB8u}, {0xA280A319u, 0x99FBF17Cu},
      {0x1946E99Eu, 0x737E9D4Bu}, {0x819780C0u, 0xA4AFAFF5u}};  // by format: lanes, rows
  for (const KvFormatInfo& format : kv_formats()) {
    for (const KvOrder order : kOrders) {
      std::uint32_t hash = 2166136261u;
      for (const std::byte b : encoded(format.format, order, rows))
        hash = (hash ^ std::to_integer<std::uint32_t>(b)) * 16777619u;
      EXPECT_EQ(hash, expected[static_cast<int>(format.format)][static_cast<int>(order)])
          << describe(format.format, order, 72) << std::hex << " 0x" << hash;
    }
  }
}

}  // namespace
}  // namespace quire
