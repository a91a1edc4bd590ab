// Output that follows a grammar: which tokens may come next, and what came.
//
//   QUIRE_TRY(CompiledGrammar compiled, CompiledGrammar::create(json_grammar(), vocabulary));
//   Constraint constraint(compiled);
//   for (left = limit; !constraint.finished() && left > 0; --left) {
//     constraint.mask(left, bits);  // sample among these
//     constraint.accept(token);
//   }
//
// A text that is begun with enough tokens for its shortest completion (`tokens_to_close`) is
// complete when they are used up, whatever is sampled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/ids.h"
#include "grammar/grammar.h"
#include "grammar/mask_table.h"
#include "grammar/token_trie.h"

namespace quire {

// A grammar over a vocabulary, and the masks met so far. Its constraints share them, and are used
// by one thread.
class CompiledGrammar {
 public:
  // Only texts of bytes that are tokens on their own are generated: whatever is begun can then be ended. Real
  // vocabularies lack at most control characters and leading bytes of characters that do not exist.
  //
  // Masks beyond most_bytes are not kept for later constraints; those at work keep theirs to their end.
  static Result<CompiledGrammar> create(const Grammar& grammar, std::shared_ptr<const TokenTrie> vocabulary,
                                        std::size_t most_bytes = std::size_t{64} << 20);

  std::shared_ptr<MaskTable> masks();

 private:
  CompiledGrammar(Grammar grammar, std::shared_ptr<const TokenTrie> vocabulary, std::size_t most_bytes);

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const TokenTrie> vocabulary_;
  std::size_t most_bytes_;
  std::shared_ptr<MaskTable> masks_;
};

// The state of one generation. A copy goes its own way.
class Constraint {
 public:
  explicit Constraint(CompiledGrammar& grammar) : masks_(grammar.masks()), state_(masks_->automaton().start()) {}

  // One bit per token, set for those that may come next where at most `remaining` more may come. End tokens may
  // come where the text is complete, and do not count. bits: [(vocabulary + 63) / 64]
  void mask(std::int64_t remaining, std::span<std::uint64_t> bits) const { masks_->fill(state_, remaining, bits); }

  // False, and nothing changes, for a token that cannot follow. An end token changes nothing.
  bool accept(TokenId token);

  bool complete() const { return masks_->automaton().complete(state_); }  // the text may end here
  bool finished() const { return masks_->automaton().finished(state_); }  // and must: nothing may follow

  // Tokens that suffice to complete the text from here; with fewer, mask() may allow none.
  std::int64_t tokens_to_close() const { return masks_->tokens_to_close(state_); }

 private:
  std::shared_ptr<MaskTable> masks_;
  Automaton::State state_;
};

}  // namespace quire
