#include "engine/kept_sequences.h"

#include <algorithm>

#include "engine/common_prefix.h"

namespace quire {

void KeptSequences::add(SequenceId sequence, Kind kind, Clock::time_point until) {
  kept_.push_back({sequence, std::move(kind), until});
  if (std::ranges::count(kept_, kNoTerm, &Kept::until) > most_) release_one();
}

KeptSequences::Match KeptSequences::longest(const Kind& kind, std::span<const TokenId> tokens) const {
  Match best;
  for (const Kept& kept : kept_) {
    if (kept.kind != kind) continue;
    const std::int64_t shared = common_prefix(cache_.tokens(kept.sequence), tokens);
    if (shared > best.tokens) best = {kept.sequence, shared};
  }
  return best;
}

bool KeptSequences::release_one() {
  if (kept_.empty()) return false;
  auto out = std::ranges::find(kept_, kNoTerm, &Kept::until);
  if (out == kept_.end()) out = kept_.begin();
  cache_.release(out->sequence);
  kept_.erase(out);
  return true;
}

void KeptSequences::release_expired(Clock::time_point now) {
  std::erase_if(kept_, [&](const Kept& kept) {
    if (kept.until == kNoTerm || kept.until > now) return false;
    cache_.release(kept.sequence);
    return true;
  });
}

}  // namespace quire
