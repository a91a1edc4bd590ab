// When caching is worth its memory.
//   always     every sequence is cached; pages nobody uses any more stay until somebody needs the room
//   long:N     sequences of up to N tokens are computed again instead
//   adaptive   as always, but memory is given back before it runs out: cached pages that nobody
//              uses, the sooner the less often anybody asks for them, then parked sequences, oldest first
//   off        nothing is cached
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "quire/result.h"

namespace quire {

struct CacheStrategy {
  enum class Kind { always, long_sequences, adaptive, off };
  Kind kind = Kind::always;
  std::int64_t threshold = 0;  // of long_sequences

  // Whether a sequence of that many tokens is cached.
  bool caches(std::int64_t tokens) const;
  // Of a full budget, the share that cached pages may keep filled; the rest is given back.
  double share_to_keep(double hit_rate) const;
};

// "always", "long:512", "adaptive", "off"
Result<CacheStrategy> parse_strategy(std::string_view text);

}  // namespace quire
