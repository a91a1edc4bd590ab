// What formats with a bf16 scale per token and group share.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "core/half.h"
#include "kv/format/layouts.h"

namespace quire {

// Groups whose largest magnitude is below kTinyGroup are stored as zeros; above kHugeGroup, which
// takes in infinities and NaN, they get a NaN for a scale and decode to NaN. An f16 page holds
// magnitudes of 2^-24 to 2^16, and between these bounds no step of an encoder leaves float's range.
inline constexpr float kTinyGroup = 0x1p-40f;
inline constexpr float kHugeGroup = 0x1p40f;
inline constexpr bf16_t kNanScale = 0x7FC0;

// Compared as integers, in which order a NaN is larger than infinity.
inline float largest_magnitude(const float* x, std::int64_t count) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFu;
    if (bits > largest) largest = bits;
  }
  return std::bit_cast<float>(largest);
}

inline std::uint16_t load_u16(const std::byte* from, std::int64_t index) {
  std::uint16_t bits;
  std::memcpy(&bits, from + 2 * index, 2);
  return bits;
}
inline void store_u16(std::byte* to, std::int64_t index, std::uint16_t bits) { std::memcpy(to + 2 * index, &bits, 2); }

}  // namespace quire
