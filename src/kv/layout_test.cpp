#include "kv/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

namespace quire {
namespace {

KvGroupSpec smollm2(KvFormat format) {
  KvGroupSpec spec;
  spec.layers = 30;
  spec.kv_heads = 3;
  spec.key_dim = spec.value_dim = 64;
  spec.keys = spec.values = format;
  return spec;
}

TEST(KvLayout, BytesPerToken) {
  const auto per_token = [](KvFormat format) { return make_layout(smollm2(format))->packed.bytes / kPageTokens; };
  EXPECT_EQ(per_token(KvFormat::f32), 46080);
  EXPECT_EQ(per_token(KvFormat::f16), 23040);
  EXPECT_EQ(per_token(KvFormat::q8), 11880);  // 8.25 bits a value
  EXPECT_EQ(per_token(KvFormat::q5), 7920);   // 5.5
  EXPECT_EQ(per_token(KvFormat::q4), 6480);   // 4.5
  EXPECT_EQ(per_token(KvFormat::q2), 3600);   // 2.5
  EXPECT_EQ(per_token(KvFormat::k4), 7200);   // 5
  EXPECT_EQ(per_token(KvFormat::k2), 4320);   // 3
}

TEST(KvLayout, TilesCoverThePageWithoutOverlap) {
  for (const KvFormatInfo& format : kv_formats()) {
    const KvGroupLayout layout = *make_layout(smollm2(format.format));
    for (const KvPageLayout& page : {layout.wide, layout.packed}) {
      const std::vector<std::byte> bytes(static_cast<std::size_t>(page.bytes));
      std::set<std::int64_t> starts;
      for (const KvStreamLayout& stream : {page.keys, page.values}) {
        for (std::int64_t layer = 0; layer < layout.layers; ++layer) {
          for (std::int64_t head = 0; head < layout.kv_heads; ++head) {
            starts.insert(stream.tile(bytes.data(), layer, head) - bytes.data());
          }
        }
      }
      EXPECT_EQ(starts.size(), 180u);
      const std::int64_t tile = page.bytes / 180;  // keys and values have tiles of one size here
      for (const std::int64_t start : starts) EXPECT_EQ(start % tile, 0) << format.name;
      EXPECT_EQ(*starts.rbegin(), page.bytes - tile);
    }
  }
}

TEST(KvLayout, TilesOfABundleLieInTheOrderInWhichTheyAreRead) {
  for (const KvFormatInfo& format : kv_formats()) {
    const KvPageLayout alone = make_layout(smollm2(format.format))->packed;
    const KvPageLayout page = bundled(alone, static_cast<std::uint64_t>(8 * alone.bytes));
    ASSERT_EQ(page.bundle.pages, 8) << format.name;
    const std::int64_t tile = alone.values.offset;
    std::int64_t next = 0;
    for (std::int64_t layer = 0; layer < 30; ++layer) {
      for (std::int64_t head = 0; head < 3; ++head) {
        for (const std::int64_t first : {0, 4}) {
          for (const KvStreamLayout* stream : {&page.keys, &page.values}) {
            for (std::int64_t i = first; i < first + 4; ++i, next += tile) {
              const std::int64_t at = page.bundle.page_offset(i) + stream->offset + layer * stream->layer_stride +
                                      head * stream->head_stride;
              ASSERT_EQ(at, next) << format.name << " page " << i;
            }
          }
        }
      }
    }
    EXPECT_EQ(next, 8 * alone.bytes);
  }
}

TEST(KvLayout, APageOfABundleComesOutAsItWentIn) {
  const KvPageLayout alone = make_layout(smollm2(KvFormat::q8))->packed;
  const KvPageLayout page = bundled(alone, static_cast<std::uint64_t>(4 * alone.bytes + 1));
  ASSERT_EQ(page.bundle.pages, 4);
  std::vector<std::byte> bundle(static_cast<std::size_t>(4 * alone.bytes));
  const auto bytes_of = [&](std::size_t which) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(alone.bytes));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251 + which * 31);
    return bytes;
  };
  const auto place = [&](std::size_t which) {
    return bundle.data() + page.bundle.page_offset(static_cast<std::int64_t>(which));
  };
  for (std::size_t which = 0; which < 4; ++which) put_in(page, bytes_of(which).data(), place(which));
  for (std::size_t which = 0; which < 4; ++which) {
    std::vector<std::byte> out(static_cast<std::size_t>(alone.bytes));
    take_out(page, place(which), out.data());
    EXPECT_EQ(out, bytes_of(which)) << which;
    EXPECT_EQ(std::memcmp(page.values.tile(place(which), 29, 2), alone.values.tile(out.data(), 29, 2),
                          static_cast<std::size_t>(page.bundle.tile)),
              0);
  }
}

TEST(KvLayout, PagesStayByThemselvesWhereABundleIsOfNoUse) {
  const KvPageLayout alone = make_layout(smollm2(KvFormat::f16))->wide;
  EXPECT_EQ(bundled(alone, static_cast<std::uint64_t>(4 * alone.bytes - 1)).bundle.pages, 1) << "too large";
  EXPECT_EQ(bundled(alone, std::uint64_t{1} << 40).bundle.pages, 64) << "no larger than is of use";
  KvGroupSpec mixed = smollm2(KvFormat::q8);
  mixed.values = KvFormat::q4;
  const KvPageLayout uneven = make_layout(mixed)->packed;
  const KvPageLayout same = bundled(uneven, std::uint64_t{1} << 40);
  EXPECT_EQ(same.bundle.pages, 1) << "keys and values of different sizes";
  EXPECT_EQ(same.values.offset, uneven.values.offset);
}

// 2,048 tokens with one sink page: 63 packed pages and one wide, and an open page as soon as there is one more.
TEST(KvLayout, EstimateCountsPagesByState) {
  KvGroupSpec spec = smollm2(KvFormat::q4);
  spec.sink_pages = 1;
  const KvGroupLayout layout = *make_layout(spec);
  const auto wide = static_cast<std::uint64_t>(layout.wide.bytes),
             packed = static_cast<std::uint64_t>(layout.packed.bytes);
  EXPECT_EQ(sequence_bytes(layout, 0), 0u);
  EXPECT_EQ(sequence_bytes(layout, 1), wide);
  EXPECT_EQ(sequence_bytes(layout, 2048), wide + 63 * packed);
  EXPECT_EQ(sequence_bytes(layout, 2049), 2 * wide + 63 * packed);
  spec.recent_pages = 4;
  EXPECT_EQ(sequence_bytes(*make_layout(spec), 2048), 5 * wide + 63 * packed) << "twins are counted beside their pages";
}

TEST(KvLayout, CopyTakesFilledRowsOnly) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::f32}) {
    KvGroupSpec spec = smollm2(format);
    spec.layers = 2;
    const KvGroupLayout layout = *make_layout(spec);
    std::vector<std::byte> from(static_cast<std::size_t>(layout.wide.bytes), std::byte{1});
    std::vector<std::byte> to(from.size(), std::byte{0});
    copy_tokens(layout, from.data(), to.data(), 5);
    const std::int64_t copied = std::ranges::count(to, std::byte{1});
    EXPECT_EQ(copied, layout.wide.bytes * 5 / kPageTokens);
    std::vector<float> row(64);
    for (const KvStreamLayout& stream : {layout.wide.keys, layout.wide.values}) {
      for (const std::int64_t token : {0, 4, 5, 31}) {
        read_token(stream.format, stream.order, stream.tile(to.data(), 1, 2), token, 64, row.data());
        EXPECT_EQ(row[63] != 0, token < 5) << token;
      }
    }
  }
}

TEST(KvLayout, BadShapesAreRefused) {
  KvGroupSpec spec = smollm2(KvFormat::f16);
  spec.layers = 0;
  EXPECT_FALSE(make_layout(spec).ok());
  spec = smollm2(KvFormat::f16);
  spec.key_dim = 1 << 20;
  EXPECT_FALSE(make_layout(spec).ok());
  spec = smollm2(KvFormat::f16);
  spec.visible = {4, 50};
  EXPECT_FALSE(make_layout(spec).ok());
  for (const KvVisibility& wrong : {KvVisibility{4, 0}, KvVisibility{-1, 5}, KvVisibility{0, -5}}) {
    EXPECT_FALSE(check_visibility(wrong).ok());
  }
}

TEST(KvLayout, TheNarrowerWindowHolds) {
  const KvVisibility full{}, policy{4, 60};
  EXPECT_EQ(narrower(full, policy), policy);
  EXPECT_EQ(narrower({0, 50}, policy), (KvVisibility{0, 50}));
  EXPECT_EQ(narrower({0, 70}, policy), policy);
  EXPECT_EQ(narrower({0, 70}, full), (KvVisibility{0, 70}));
  EXPECT_EQ(unaffected_tokens(full, policy), 64);
  EXPECT_EQ(unaffected_tokens({0, 62}, policy), 62) << "with its sinks it sees more than the model would";
  EXPECT_GT(unaffected_tokens({0, 50}, policy), 1000);
  EXPECT_GT(unaffected_tokens(full, full), 1000);
}

}  // namespace
}  // namespace quire
