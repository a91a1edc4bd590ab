// Joining the softmax states of two disjoint stretches of tokens.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace quire {

// A state is: max of the scores, sum of exp(score - max), and out, the same sum weighted by values.
// A stretch in which nothing was seen has sum 0.
inline void merge_softmax(float* out, float& max, float& sum, const float* part_out, float part_max, float part_sum,
                          std::int64_t dim) {
  if (part_sum == 0.f) return;  // its max is -inf, and -inf minus -inf is NaN
  if (sum == 0.f) {
    std::copy_n(part_out, dim, out);
    max = part_max;
    sum = part_sum;
    return;
  }
  const float new_max = std::max(max, part_max);
  const float weight = std::exp(max - new_max), part_weight = std::exp(part_max - new_max);
  for (std::int64_t d = 0; d < dim; ++d) out[d] = out[d] * weight + part_out[d] * part_weight;
  sum = sum * weight + part_sum * part_weight;
  max = new_max;
}

}  // namespace quire
