// Formats of one byte a value and a bf16 scale per token and group of 64 dimensions.
//
// A group's scale is its largest magnitude / Code::kLargest, rounded to bf16; code = Code::from(x *
// (1 / scale)). The rounding moves the largest code by less than half a step, so it is kLargest,
// never beyond, and encoding what was decoded finds the same scale. Decoding is one product, exact.
#pragma once

#include <algorithm>
#include <cstring>

#include "kv/format/scales.h"

namespace quire {

template <class Code, KvFormat format>
void encode_bytes(KvOrder order, const float* rows, std::int64_t dim, std::byte* tile) {
  constexpr std::int64_t kGroup = kv_group_dims(format);
  const KvTileParts parts = kv_tile_parts(format, order, dim);
  std::memset(tile, 0, static_cast<std::size_t>(parts.bytes));
  for (std::int64_t t = 0; t < kPageTokens; ++t) {
    for (std::int64_t start = 0; start < dim; start += kGroup) {
      const float* x = rows + t * dim + start;
      const std::int64_t count = std::min(kGroup, dim - start);
      const float largest = largest_magnitude(x, count);
      const std::int64_t at = kv_scale(format, order, dim, t, start);
      if (largest < kTinyGroup) continue;
      if (!(largest <= kHugeGroup)) {
        store_u16(tile + parts.scales, at, kNanScale);
        continue;
      }
      const bf16_t scale = f32_to_bf16(largest / Code::kLargest);
      const float inverse = 1.f / bf16_to_f32(scale);
      store_u16(tile + parts.scales, at, scale);
      for (std::int64_t j = 0; j < count; ++j) {
        tile[kv_element(order, dim, t, start + j)] = std::byte{Code::from(x[j] * inverse)};
      }
    }
  }
}

template <class Code, KvFormat format>
void decode_bytes(KvOrder order, const std::byte* tile, std::int64_t dim, float* rows) {
  const KvTileParts parts = kv_tile_parts(format, order, dim);
  for (std::int64_t t = 0; t < kPageTokens; ++t) {
    for (std::int64_t d = 0; d < dim; ++d) {
      const float scale = bf16_to_f32(load_u16(tile + parts.scales, kv_scale(format, order, dim, t, d)));
      rows[t * dim + d] = scale * Code::to(std::to_integer<std::uint8_t>(tile[kv_element(order, dim, t, d)]));
    }
  }
}

}  // namespace quire
