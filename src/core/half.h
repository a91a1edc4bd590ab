// 16-bit floats, by bit manipulation: the truth that hardware conversions are compared with.
#pragma once

#include <bit>
#include <cstdint>

namespace quire {

using f16_t = std::uint16_t;   // IEEE 754 binary16, by its bits
using bf16_t = std::uint16_t;  // the upper half of a binary32, by its bits

inline float f16_to_f32(f16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  const std::uint32_t exponent = (h >> 10) & 0x1Fu;
  const std::uint32_t mantissa = h & 0x3FFu;
  if (exponent == 0) {
    // Zero or subnormal: mantissa * 2^-24, exact in binary32.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// Rounds to nearest even, as F16C does; a NaN keeps its upper payload bits and becomes quiet.
inline f16_t f32_to_f16(float f) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<f16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
  if (magnitude >= 0x47800000u) return static_cast<f16_t>(sign | 0x7C00u);  // 65536 and above
  if (magnitude < 0x38800000u) {
    // Below 2^-14: adding 0.5 puts the rounded 10-bit result in the low mantissa bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<f16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000u));
  }
  // Rebias and round; a carry out of the mantissa rightly bumps the exponent, up to infinity.
  const std::uint32_t rounded = magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u);
  return static_cast<f16_t>(sign | (rounded >> 13));
}

inline float bf16_to_f32(bf16_t h) { return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16); }

inline bf16_t f32_to_bf16(float f) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<bf16_t>((bits >> 16) | 0x40u);
  return static_cast<bf16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace quire
