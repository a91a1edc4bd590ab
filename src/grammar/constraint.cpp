#include "grammar/constraint.h"

#include <algorithm>
#include <utility>

#include "core/fail.h"

namespace quire {

Result<CompiledGrammar> CompiledGrammar::create(const Grammar& grammar, std::shared_ptr<const TokenTrie> vocabulary,
                                                std::size_t most_bytes) {
  Result<Grammar> writable = grammar.limited_to(vocabulary->single_bytes());
  if (!writable.ok()) {
    return fail(Errc::unsupported, "the grammar needs bytes that are no tokens of this vocabulary on their own");
  }
  return CompiledGrammar(std::move(writable).value(), std::move(vocabulary), most_bytes);
}

CompiledGrammar::CompiledGrammar(Grammar grammar, std::shared_ptr<const TokenTrie> vocabulary, std::size_t most_bytes)
    : grammar_(std::make_shared<const Grammar>(std::move(grammar))),
      vocabulary_(std::move(vocabulary)),
      most_bytes_(most_bytes) {}

std::shared_ptr<MaskTable> CompiledGrammar::masks() {
  if (masks_ == nullptr || masks_->bytes() > most_bytes_) {
    masks_ = std::make_shared<MaskTable>(grammar_, vocabulary_);
  }
  return masks_;
}

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
