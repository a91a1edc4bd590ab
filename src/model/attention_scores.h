// The room that the scores of one sequence take (AttentionScores::sums).
#pragma once

#include <cstdint>
#include <span>

#include "kv/view.h"

namespace quire {

// Values in [model layers, kv_heads, cached tokens] when the sequence has `length` tokens.
inline std::int64_t score_count(std::span<const KvGroupLayout> groups, std::span<const KvLayerRef> layers,
                                std::span<const KvTable> tables, std::int64_t length) {
  std::int64_t count = 0;
  for (const KvLayerRef& layer : layers) {
    const auto group = static_cast<std::size_t>(layer.group);
    count += groups[group].kv_heads * (tables[group].kept_tokens + length - tables[group].first_position);
  }
  return count;
}

}  // namespace quire
