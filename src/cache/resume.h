// What each group of layers needs to go on after n tokens.
#pragma once

#include <algorithm>
#include <cstdint>

namespace quire {

struct GroupNeed {
  enum class Kind {
    full,    // every block
    window,  // the blocks of the last tokens - 1 tokens: the next query sees those and itself
    recent,  // the blocks of the last `tokens` tokens: 16-bit twins of encoded pages
  };
  Kind kind = Kind::full;
  std::int64_t tokens = 0;
};

struct BlockRange {
  std::int64_t first, last;  // [first, last)

  bool holds(std::int64_t block) const { return block >= first && block < last; }
};

// The blocks whose pages must be there to go on after `blocks` whole blocks.
constexpr BlockRange needed_blocks(const GroupNeed& need, std::int64_t blocks, std::int64_t block_tokens) {
  const auto from_end = [&](std::int64_t tokens) {
    const std::int64_t end = blocks * block_tokens;
    return BlockRange{std::max<std::int64_t>(end - std::max<std::int64_t>(tokens, 0), 0) / block_tokens, blocks};
  };
  switch (need.kind) {
    case GroupNeed::Kind::full:
      return {0, blocks};
    case GroupNeed::Kind::window:
      return from_end(need.tokens - 1);
    case GroupNeed::Kind::recent:
      return from_end(need.tokens);
  }
  return {0, blocks};
}

}  // namespace quire
