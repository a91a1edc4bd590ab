// Which tokens may follow in each state of a grammar, worked out on the first visit and kept.
//
// Most of what a state allows does not depend on where it is: inside a string, only tokens that
// close it and go on do. So the tree of tokens is walked once per state without its context, and
// for each context only below the tokens that leave the state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/ids.h"
#include "grammar/automaton.h"
#include "grammar/token_trie.h"

namespace quire {

// For one thread.
class MaskTable {
 public:
  using State = Automaton::State;

  MaskTable(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> vocabulary);

  Automaton& automaton() { return automaton_; }
  const TokenTrie& vocabulary() const { return *vocabulary_; }

  // Sets exactly the bits of the tokens after which the text can be completed with remaining - 1 tokens, and those
  // of the end tokens where it is complete. bits: [(vocabulary + 63) / 64]
  void fill(State state, std::int64_t remaining, std::span<std::uint64_t> bits);

  // How many tokens the shortest completion takes, cut into as few as possible. Never more than one less
  // after that completion's first token, so whoever has enough tokens once has enough to the end.
  std::int64_t tokens_to_close(State state);

  std::size_t bytes() const {
    return automaton_.bytes() + kept_bytes_ + tokens_to_close_.size() * sizeof(std::int32_t);
  }

 private:
  // Tokens as a list while they are few, as bits when they are many.
  struct TokenSet {
    std::vector<TokenId> list;
    std::vector<std::uint64_t> bits;
    void add_to(std::span<std::uint64_t> target) const;
  };
  struct Inside {
    TokenSet allowed;                   // without leaving the state's context
    std::vector<std::uint32_t> leaves;  // nodes of the tree that leave it; what is below is for the context to say
    std::int64_t worst = 0;             // most tokens_to_close after one of them
  };
  struct Mask {
    const Inside* inside;
    TokenSet allowed;        // those not in `inside`
    std::int64_t worst = 0;  // most tokens_to_close after any of them
  };
  // Tokens that lead to the same state, so that one can answer for all.
  struct Group {
    TokenId sample;
    TokenSet tokens;
  };

  const Mask& mask_of(State state);
  const Inside& inside_of(State state);
  const std::vector<Group>& groups_of(State inside);
  void fill_closely(State state, std::int64_t remaining, std::span<std::uint64_t> bits);
  TokenSet packed(std::vector<TokenId> tokens);
  State after(State state, std::string_view bytes);

  // Calls visit(node, state) for the nodes that state `from` can follow; where it returns false, what is below is
  // passed over. first, last: siblings and what is below them.
  template <class Visit>
  void walk(State from, std::uint32_t first, std::uint32_t last, const Visit& visit);
  template <class Visit>
  void walk_all(State from, const Visit& visit);
  // Calls found(tokens, state) for the tokens that leave a state's context, or end just there.
  template <class Found>
  void walk_leaves(State state, const Inside& inside, const Found& found);

  std::shared_ptr<const TokenTrie> vocabulary_;
  Automaton automaton_;
  std::unordered_map<State, Mask> masks_;
  std::unordered_map<State, Inside> insides_;  // Mask points to them
  std::unordered_map<State, std::vector<Group>> groups_;
  std::vector<std::int32_t> tokens_to_close_;  // [states], or fewer; negative where unknown
  std::vector<State> path_;                    // [longest token + 1] walk's states, by depth
  std::size_t kept_bytes_ = 0;
};

}  // namespace quire
