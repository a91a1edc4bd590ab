// The rotation of rotated formats: an orthogonal matrix of +-1/sqrt(n), applied in blocks of n, the
// largest power of two that divides the head size. It is symmetric, so applying it twice gives
// back what was there; and since it is orthogonal, rotating queries and keys alike changes no score.
#pragma once

#include <cmath>
#include <cstdint>

namespace quire {

constexpr std::int64_t hadamard_block(std::int64_t dim) { return dim & -dim; }

// One row, in place. Butterflies: at distance h, (a, b) becomes (a + b, a - b).
inline void hadamard(float* x, std::int64_t dim) {
  const std::int64_t block = hadamard_block(dim);
  const float scale = 1.f / std::sqrt(static_cast<float>(block));
  for (std::int64_t start = 0; start < dim; start += block) {
    float* at = x + start;
    for (std::int64_t h = 1; h < block; h *= 2) {
      for (std::int64_t i = 0; i < block; i += 2 * h) {
        for (std::int64_t j = i; j < i + h; ++j) {
          const float a = at[j], b = at[j + h];
          at[j] = a + b;
          at[j + h] = a - b;
        }
      }
    }
    for (std::int64_t i = 0; i < block; ++i) at[i] *= scale;
  }
}

}  // namespace quire
