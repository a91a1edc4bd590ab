// Weights side by side: a panel holds 16 rows, block of 32 columns after block of 32 columns, so that a
// vector has one pair of columns of 8 or 16 rows and products need no sum across lanes.
//
//   block: codes | scales [1 or 2][16] | minima [1 or 2][16]      two where halves of 16 columns have their own
//
//   bytes:    [8][16 rows][4 columns], the columns of each four in the order 0 2 1 3
//   nibbles:  [4][16 rows][4 bytes], of eight columns: 0 2 1 3 in the low halves, 4 6 5 7 in the high ones
//
// In that order 16 bits hold one column of each of two pairs (or of four, as nibbles), beside them the pairs' other
// columns, so that shifts leave pairs of 16-bit numbers; and 32 bits hold four columns, as products of bytes take them.
#include "kernels/cpu/panel_lanes.inl"

namespace quire {
namespace {

constexpr int kPairOfNibble[4] = {0, 2, 1, 3};
constexpr std::int64_t place_of_column(std::int64_t column) { return column == 1 || column == 2 ? 3 - column : column; }

template <class F>
struct Panel {
  static constexpr bool kNibbles = F::kCodes != Codes::bytes;
  static constexpr std::int64_t kCodeBytes = kPanelRows * kBlock / (kNibbles ? 2 : 1);
  static constexpr std::int64_t kScaleRowBytes = kPanelRows * (F::kScales == Scales::f16 ? 2 : 4);
  static constexpr std::int64_t kParts = F::kHalfScales ? 2 : 1;
  static constexpr std::int64_t kMinimaAt = kCodeBytes + kParts * kScaleRowBytes;
  static constexpr std::int64_t kBlockBytes = kMinimaAt + (F::kMinima ? kParts * kScaleRowBytes : 0);
};

template <class F>
QUIRE_INLINE void pack_codes(const std::int16_t* codes, std::int64_t row, std::uint8_t* block) {
  if constexpr (Panel<F>::kNibbles) {
    for (std::int64_t j = 0; j < 4; ++j) {
      std::uint32_t pair[4];
      std::memcpy(pair, codes + 8 * j, sizeof pair);
      std::uint32_t word = 0;
      for (int i = 0; i < 4; ++i) word |= (pair[kPairOfNibble[i]] & 0x000F000Fu) << (4 * i);
      std::memcpy(block + (j * kPanelRows + row) * 4, &word, sizeof word);
    }
  } else {
    for (std::int64_t column = 0; column < kBlock; ++column) {
      block[(column / 4 * kPanelRows + row) * 4 + place_of_column(column % 4)] =
          static_cast<std::uint8_t>(codes[column]);
    }
  }
}

template <class F>
QUIRE_INLINE void pack_scales(const float* values, std::int64_t row, std::uint8_t* to) {
  for (std::int64_t part = 0; part < Panel<F>::kParts; ++part) {
    std::uint8_t* at = to + part * Panel<F>::kScaleRowBytes;
    if constexpr (F::kScales == Scales::f16) {
      const std::uint16_t half = to_f16_one(values[part]);
      std::memcpy(at + row * 2, &half, sizeof half);
    } else {
      std::memcpy(at + row * 4, values + part, sizeof(float));
    }
  }
}

std::int64_t panel_bytes(DType type, std::int64_t cols) {
  std::int64_t bytes = 0;
  with_format(type, [&]<class F>(F) { bytes = cols / kBlock * Panel<F>::kBlockBytes; });
  return bytes;
}

void pack_panel(DType type, const std::byte* rows, std::int64_t count, std::int64_t cols, std::byte* panel) {
  with_format(type, [&]<class F>(F) {
    using P = Panel<F>;
    auto* out = reinterpret_cast<std::uint8_t*>(panel);
    if (count < kPanelRows) std::memset(out, 0, static_cast<std::size_t>(cols / kBlock * P::kBlockBytes));
    const auto* source = reinterpret_cast<const std::uint8_t*>(rows);
    for (std::int64_t row = 0; row < count; ++row) {
      std::uint8_t* block = out;
      for (std::int64_t i = 0; i < cols / F::kValues; ++i, source += F::kBytes) {
        std::int16_t codes[F::kValues];
        float scale[F::kValues / 16], min[F::kValues / 16];
        F::unpack(source, codes, scale, min);
        for (std::int64_t g = 0; g < F::kValues / kBlock; ++g, block += P::kBlockBytes) {
          pack_codes<F>(codes + g * kBlock, row, block);
          pack_scales<F>(scale + 2 * g, row, block + P::kCodeBytes);
          if constexpr (F::kMinima) pack_scales<F>(min + 2 * g, row, block + P::kMinimaAt);
        }
      }
    }
  });
}

}  // namespace
}  // namespace quire
