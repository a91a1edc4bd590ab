// Faults put into a session's cache on purpose, to see what it holds and what follows when that is wrong. Nothing but
// this header reaches them: it is not installed, and no command, request or option leads here but `quire lab break`.
//
// The flat cache alone can be damaged: its slots stay where they are and belong to nobody else.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/session_cache.h"
#include "quire/session.h"

namespace quire {

class CacheFaults {
 public:
  explicit CacheFaults(Session& session);  // which outlives this

  // key: [head_dim], as attention compares it: turned to its position.
  Result<void> overwrite_key(std::int64_t layer, std::int64_t head, std::int64_t position, std::span<const float> key);
  Result<std::vector<float>> read_key(std::int64_t layer, std::int64_t head, std::int64_t position) const;

  // From now on every token's keys and values go so many slots behind its own. What is read stays as it was: a slot
  // carries no position of its own.
  Result<void> shift_writes(std::int64_t slots);

 private:
  Result<std::byte*> key_tile(std::int64_t layer, std::int64_t head, std::int64_t position) const;

  SessionCache& cache_;
};

}  // namespace quire
