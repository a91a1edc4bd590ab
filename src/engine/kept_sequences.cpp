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

void KeptSequences::release(SequenceId sequence) {
  const auto at = std::ranges::find(kept_, sequence, &Kept::sequence);
  if (at == kept_.end()) return;
  cache_.release(sequence);
  kept_.erase(at);
}

bool KeptSequences::release_one() {
  if (kept_.empty()) return false;
  auto out = std::ranges::find(kept_, kNoTerm, &Kept::until);
  if (out == kept_.end()) out = kept_.begin();
  cache_.release(out->sequence);
  kept_.erase(out);
  return true;
}

template <class Goes>
std::int64_t KeptSequences::release_where(Goes&& goes) {
  return static_cast<std::int64_t>(std::erase_if(kept_, [&](const Kept& kept) {
    if (kept.until == kNoTerm || !goes(kept)) return false;
    cache_.release(kept.sequence);
    return true;
  }));
}

void KeptSequences::release_expired(Clock::time_point now) {
  release_where([&](const Kept& kept) { return kept.until <= now; });
}

std::int64_t KeptSequences::release_pinned(const Kind& kind, std::span<const TokenId> tokens) {
  return release_where(
      [&](const Kept& kept) { return kept.kind == kind && std::ranges::equal(cache_.tokens(kept.sequence), tokens); });
}

}  // namespace quire
