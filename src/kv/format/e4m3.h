// Eight-bit floats: sign, 4 bits of exponent (bias 7), 3 of mantissa. No infinity; 0x7F is NaN, 0x7E
// is 448, 0x08 is the smallest normal (2^-6), 0x01 the smallest of all (2^-9).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace quire {

inline float e4m3_to_f32(std::uint8_t code) {
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80u) << 24;
  const std::uint32_t magnitude = code & 0x7Fu;
  if (magnitude == 0x7F) return std::bit_cast<float>(sign | 0x7FC00000u);
  if (magnitude < 8) {
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-9f));
  }
  return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
}

// Rounds to nearest even; beyond 448 is 448, NaN is NaN.
inline std::uint8_t f32_to_e4m3(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (bits >> 24) & 0x80u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<std::uint8_t>(sign | 0x7Fu);
  if (magnitude >= 0x43E00000u) return static_cast<std::uint8_t>(sign | 0x7Eu);  // 448 and above
  if (magnitude < 0x3C800000u) {                                                 // below 2^-6
    return static_cast<std::uint8_t>(sign |
                                     static_cast<std::uint32_t>(std::lrint(std::bit_cast<float>(magnitude) * 512.f)));
  }
  const std::uint32_t rounded = magnitude - (120u << 23) + 0x7FFFFu + ((magnitude >> 20) & 1u);
  return static_cast<std::uint8_t>(sign | (rounded >> 20));
}

}  // namespace quire
