#pragma once

#include <cmath>
#include <cstddef>
#include <span>

namespace quire {

// The value below which the given fraction of the samples lies; 0 where there are none.
inline double percentile(std::span<const double> sorted, double fraction) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<std::size_t>(std::lround(fraction * static_cast<double>(sorted.size() - 1)))];
}

}  // namespace quire
