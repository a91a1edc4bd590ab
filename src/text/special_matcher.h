// Finds the tokens that are recognised in text as they stand, before any tokenizer sees it:
// "<|im_start|>", or a run of newlines that the vocabulary's author set apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/ids.h"

namespace quire {

class SpecialMatcher {
 public:
  enum class When { always, only_if_parsing };
  struct Match {
    std::size_t begin;
    std::uint32_t length;
    TokenId id;
  };

  // The text is not empty and differs from those added before.
  void add(std::string_view text, TokenId id, When when);

  // Matches in order, without overlaps. Where tokens overlap the longest wins wherever it stands,
  // then the lowest id, then the leftmost: llama.cpp replaces them one token at a time, longest first.
  std::vector<Match> find(std::string_view text, bool parsing) const;

 private:
  // A trie. Nodes have few children but for the root, which has a table.
  struct Node {
    char byte = 0;
    std::uint32_t first_child = 0, sibling = 0;  // 0, the root, is no one's child: none
    std::optional<TokenId> id;                   // of the token that ends here
    When when = When::always;
  };
  static constexpr std::uint32_t kRoot = 0;

  std::uint32_t child(std::uint32_t node, char byte) const;  // 0 if there is none
  std::optional<Match> longest_at(std::string_view text, std::size_t begin, std::size_t limit, bool parsing) const;

  std::vector<Node> nodes_ = {Node{}};
  std::array<std::uint32_t, 256> roots_children_{};
  std::size_t longest_ = 0;
};

}  // namespace quire
