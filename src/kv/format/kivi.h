// KIVI formats: value = zero + scale * code, with zero and scale in f16 for each line of 32 values.
// A line of keys (lanes) is one dimension over the page's tokens, because outliers of keys stay in
// their dimension; a line of values (rows) is a group of 32 dimensions of one token.
//
// zero is the least value rounded to f16; scale is (largest - zero) / (2^bits - 1) rounded up to
// f16, so the codes reach the largest value; codes are taken with these rounded numbers.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kv/format/lines.h"
#include "kv/format/scales.h"

namespace quire {

// For x >= 0.
inline f16_t f32_to_f16_up(float x) {
  const f16_t nearest = f32_to_f16(x);
  return static_cast<f16_t>(f16_to_f32(nearest) < x ? nearest + 1 : nearest);
}

inline constexpr f16_t kF16Infinity = 0x7C00;
inline constexpr f16_t kF16Nan = 0x7E00;

struct KiviLine {
  f16_t scale;
  f16_t zero;
  float inverse;  // 1 / scale, or 0 where there is one value only
};

// A line with an infinity or a NaN, or out of f16's range: scale NaN, zero and codes 0.
inline KiviLine kivi_line(const float* x, std::int64_t count, float largest_code) {
  constexpr KiviLine kBroken{kF16Nan, 0, 0};
  if (!(largest_magnitude(x, count) <= kHugeGroup)) return kBroken;
  const auto [least, largest] = std::minmax_element(x, x + count);
  const f16_t zero = f32_to_f16(*least);
  const float range = *largest - f16_to_f32(zero);
  const f16_t scale = range > 0 ? f32_to_f16_up(range / largest_code) : f16_t{0};
  if ((zero & 0x7FFF) == kF16Infinity || scale == kF16Infinity) return kBroken;
  return {scale, zero, scale == 0 ? 0.f : 1.f / f16_to_f32(scale)};
}

template <KvFormat format>
void encode_kivi(KvOrder order, const float* rows, std::int64_t dim, std::byte* tile) {
  constexpr float kLargestCode = (1 << kv_code_bits(format)) - 1;
  const KvTileParts parts = kv_tile_parts(format, order, dim);
  std::memset(tile, 0, static_cast<std::size_t>(parts.bytes));
  const std::int64_t groups = kv_groups(format, dim);
  for (std::int64_t line = 0; line < kv_lines(order, dim); ++line) {
    // First value of the line, distance between its values, and their number.
    const bool lanes = order == KvOrder::lanes;
    const std::int64_t start = lanes ? 0 : line % groups * 32;
    const float* from = lanes ? rows + line : rows + line / groups * dim + start;
    const std::int64_t stride = lanes ? dim : 1;
    const std::int64_t count = lanes ? kPageTokens : std::min<std::int64_t>(32, dim - start);

    std::array<float, 32> x{};
    for (std::int64_t i = 0; i < count; ++i) x[static_cast<std::size_t>(i)] = from[i * stride];
    const KiviLine fitted = kivi_line(x.data(), count, kLargestCode);
    store_u16(tile + parts.scales, line, fitted.scale);
    store_u16(tile + parts.zeros, line, fitted.zero);
    if (fitted.inverse == 0) continue;
    const float zero = f16_to_f32(fitted.zero);
    for (std::int64_t i = 0; i < count; ++i) {
      const float steps = std::clamp((x[static_cast<std::size_t>(i)] - zero) * fitted.inverse, 0.f, kLargestCode);
      put_code<format>(tile, parts, line, i, static_cast<std::uint8_t>(std::lrint(steps)));  // ties to even
    }
  }
}

template <KvFormat format>
void decode_kivi(KvOrder order, const std::byte* tile, std::int64_t dim, float* rows) {
  const KvTileParts parts = kv_tile_parts(format, order, dim);
  for (std::int64_t t = 0; t < kPageTokens; ++t) {
    for (std::int64_t d = 0; d < dim; ++d) {
      const std::int64_t line = kv_line(order, dim, t, d);
      const float scale = f16_to_f32(load_u16(tile + parts.scales, line));
      const float zero = f16_to_f32(load_u16(tile + parts.zeros, line));
      const std::uint8_t code = get_code<format>(tile, parts, line, kv_index_in_line(order, t, d));
      rows[t * dim + d] = zero + scale * static_cast<float>(code);  // an exact product: fused or not, the same bits
    }
  }
}

}  // namespace quire
