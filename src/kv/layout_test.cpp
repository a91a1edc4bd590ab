#include "kv/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
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
