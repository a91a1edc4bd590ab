#include "grammar/constraint.h"

#include <algorithm>

namespace quire {

bool Constraint::accept(TokenId token) {
  const TokenTrie& vocabulary = masks_->vocabulary();
  const auto ends = vocabulary.end_tokens();
  if (std::find(ends.begin(), ends.end(), token) != ends.end()) return complete();
  const std::string_view bytes = vocabulary.bytes(token);
  if (bytes.empty()) return false;
  Automaton::State state = state_;
  for (const char byte : bytes) state = masks_->automaton().step(state, static_cast<std::uint8_t>(byte));
  if (state == Automaton::kDead) return false;
  state_ = state;
  return true;
}

}  // namespace quire
