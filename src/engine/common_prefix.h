#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/ids.h"

namespace quire {

// How many tokens two sequences have in common from their start.
inline std::int64_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace quire
