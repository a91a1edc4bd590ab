// Queries as keys of evenly spaced levels meet them: whole numbers of 7 bits, one scale per group of 32 dimensions, so
// that scores are sums of whole numbers. Rounding leaves a query wrong by a hundredth of its size, where a key of four
// bits is wrong by a tenth.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kv/format/layouts.h"

namespace quire {

// Where keys are also values their levels are those of values.
constexpr bool meets_query_codes(KvFormat format, KvOrder order, bool latent) {
  return format == KvFormat::q4 && order == KvOrder::lanes && !latent;
}

inline constexpr std::int64_t kQueryGroup = kv_group_dims(KvFormat::q4);

// x = scale * code for x[0, count), a multiple of 8; returns the scale. Of what is not finite: codes of zero and a
// scale of NaN.
inline float round_query(const float* x, std::size_t count, std::int8_t* codes) {
  // Eight of each, as compilers make vectors of. What is not finite leaves a zero that is none: a maximum may hide NaN.
  std::array<float, 8> tops{}, zeros{};
  for (std::size_t i = 0; i < count; i += 8) {
    for (std::size_t j = 0; j < 8; ++j) {
      const float size = std::fabs(x[i + j]);
      tops[j] = size > tops[j] ? size : tops[j];
      zeros[j] += x[i + j] * 0;
    }
  }
  const float largest = *std::max_element(tops.begin(), tops.end());
  const bool finite = std::all_of(zeros.begin(), zeros.end(), [](float zero) { return zero == 0; });
  const float inverse = finite && largest > 1e-30f ? static_cast<float>(kLargestQueryCode) / largest : 0.f;
  for (std::size_t i = 0; i < count; ++i) {
    // Adding 1.5 * 2^23 rounds to nearest even and leaves the integer in the low bits.
    const float shifted = (finite ? x[i] : 0.f) * inverse + 0x1.8p23f;
    std::int32_t bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    codes[i] = static_cast<std::int8_t>(bits);
  }
  if (!finite) return std::numeric_limits<float>::quiet_NaN();
  return inverse > 0 ? largest / static_cast<float>(kLargestQueryCode) : 0.f;
}

}  // namespace quire
