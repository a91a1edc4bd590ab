// Where the bytes of a tile are, for every format: what codecs, kernels and tests share.
//
// A tile is its codes, then fifth bits, then scales, then zero points, whichever it has, without
// gaps, rounded up to 16 bytes at its end. All numbers are little-endian.
//
//                 codes                  fifth bits     scales               zero points
//   f32 f16 bf16  lanes [dim][32]
//                 rows  [32][dim]
//   fp8 q8        lanes [dim][32]                       bf16 [groups][32]
//                 rows  [32][dim]                       bf16 [32][groups]
//   q5            lanes [dim] lines      u32 [dim]      bf16 [groups][32]
//                 rows  [32][groups]     u32 [32][groups]  bf16 [32][groups]
//   q4 q2         as q5, without the fifth bits
//   k4 k2         lanes [dim] lines                     f16 [dim]            f16 [dim]
//                 rows  [32][groups]                    f16 [32][groups]     f16 [32][groups]
//
// A line is 32 codes that lie together: one dimension's 32 tokens (lanes), or a group of 32
// dimensions of one token (rows, the last group padded). Code i of a line:
//   4 bits, 16 bytes: byte i % 16, in bits 0-3 for i < 16, else 4-7
//   2 bits,  8 bytes: byte i % 8, in bits 2 (i / 8) and up
//   fifth bit: bit i of the line's u32
#pragma once

#include <array>
#include <cstdint>

#include "kv/format.h"

namespace quire {

constexpr std::int64_t kv_code_bits(KvFormat format) {
  switch (format) {
    case KvFormat::f32:
      return 32;
    case KvFormat::f16:
    case KvFormat::bf16:
      return 16;
    case KvFormat::fp8:
    case KvFormat::q8:
      return 8;
    case KvFormat::q5:
      return 5;
    case KvFormat::q4:
    case KvFormat::k4:
      return 4;
    case KvFormat::q2:
    case KvFormat::k2:
      return 2;
  }
  return 0;
}

constexpr bool kv_has_zeros(KvFormat format) { return format == KvFormat::k4 || format == KvFormat::k2; }

// Dimensions of a token that share a scale.
constexpr std::int64_t kv_group_dims(KvFormat format) {
  return format == KvFormat::fp8 || format == KvFormat::q8 ? 64 : 32;
}
constexpr std::int64_t kv_groups(KvFormat format, std::int64_t dim) {
  return (dim + kv_group_dims(format) - 1) / kv_group_dims(format);
}

// Lines of codes, for the formats of five bits and fewer.
constexpr std::int64_t kv_lines(KvOrder order, std::int64_t dim) {
  return order == KvOrder::lanes ? dim : kPageTokens * ((dim + 31) / 32);
}
constexpr std::int64_t kv_line(KvOrder order, std::int64_t dim, std::int64_t token, std::int64_t d) {
  return order == KvOrder::lanes ? d : token * ((dim + 31) / 32) + d / 32;
}
constexpr std::int64_t kv_index_in_line(KvOrder order, std::int64_t token, std::int64_t d) {
  return order == KvOrder::lanes ? token : d % 32;
}
constexpr std::int64_t kv_line_bytes(KvFormat format) { return kv_code_bits(format) >= 4 ? 16 : 8; }

// Value number in a tile of whole elements: f32, f16, bf16, fp8, q8.
constexpr std::int64_t kv_element(KvOrder order, std::int64_t dim, std::int64_t token, std::int64_t d) {
  return order == KvOrder::lanes ? d * kPageTokens + token : token * dim + d;
}

// Number, in its part of the tile, of the scale (and zero point) of a value.
constexpr std::int64_t kv_scale(KvFormat format, KvOrder order, std::int64_t dim, std::int64_t token, std::int64_t d) {
  const std::int64_t group = d / kv_group_dims(format);
  if (order == KvOrder::rows) return token * kv_groups(format, dim) + group;
  return kv_has_zeros(format) ? d : group * kPageTokens + token;
}

// Bytes from the tile's start; codes are at 0. A part that a format has not is empty.
struct KvTileParts {
  std::int64_t fifth_bits;
  std::int64_t scales;
  std::int64_t zeros;
  std::int64_t bytes;  // the tile
};

constexpr KvTileParts kv_tile_parts(KvFormat format, KvOrder order, std::int64_t dim) {
  const std::int64_t bits = kv_code_bits(format);
  const std::int64_t codes = bits >= 8 ? kPageTokens * dim * bits / 8 : kv_lines(order, dim) * kv_line_bytes(format);
  const std::int64_t fifth_bits = bits == 5 ? kv_lines(order, dim) * 4 : 0;
  std::int64_t scales = bits >= 16 ? 0 : kPageTokens * kv_groups(format, dim) * 2;
  if (kv_has_zeros(format)) scales = kv_lines(order, dim) * 2;
  const std::int64_t zeros = kv_has_zeros(format) ? scales : 0;

  KvTileParts parts{};
  parts.fifth_bits = codes;
  parts.scales = parts.fifth_bits + fifth_bits;
  parts.zeros = parts.scales + scales;
  parts.bytes = (parts.zeros + zeros + 15) / 16 * 16;
  return parts;
}

// Levels of the codebook formats: value = scale * level[code]. Product of a scale and a level: exact. Those of q2 and
// q5 quantise a Gaussian with the least squared error (Lloyd-Max), the outermost at 127. Those of q4 are evenly spaced:
// a fifth more error, but scores are sums of whole numbers.
inline constexpr std::array<std::int8_t, 4> kLevels2{-127, -38, 38, 127};
inline constexpr std::array<std::int8_t, 16> kLevels4{-120, -104, -88, -72, -56, -40, -24, -8,
                                                      8,    24,   40,  56,  72,  88,  104, 120};
inline constexpr int kHalfStep4 = 8;          // level = half step * (2 * code - 15)
inline constexpr int kLargestQueryCode = 63;  // of queries that meet them: see kv/query_codes.h
inline constexpr std::array<std::int8_t, 32> kLevels5{-127, -105, -90, -79, -70, -61, -54, -47, -41, -35, -29,
                                                      -24,  -18,  -13, -8,  -3,  3,   8,   13,  18,  24,  29,
                                                      35,   41,   47,  54,  61,  70,  79,  90,  105, 127};

}  // namespace quire
