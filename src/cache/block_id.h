#pragma once

#include <cstdint>

namespace quire {

// Small numbers, reused: whoever keeps something per block keeps it in an array.
using BlockId = std::int32_t;
constexpr BlockId kNoBlock = -1;

}  // namespace quire
