// A vocabulary as a tree of bytes, for asking a question of all tokens at once.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.h"
#include "quire/result.h"

namespace quire {

class TokenTrie {
 public:
  // Nodes lie in the order of their bytes, each before those it leads to. The root is not among them.
  struct Node {
    std::uint32_t end;     // the node after the last one below this
    std::uint32_t tokens;  // where its tokens begin; they end where the next node's begin
    std::uint16_t depth;   // bytes up to and with this one
    std::uint8_t byte;
  };

  // bytes_of gives a token's text, nothing for control tokens: those are never part of a text.
  static Result<TokenTrie> create(std::size_t vocabulary, const std::function<std::string_view(TokenId)>& bytes_of,
                                  std::vector<TokenId> end_tokens);

  std::size_t vocabulary() const { return begins_.size() - 1; }
  std::span<const TokenId> end_tokens() const { return end_tokens_; }
  std::size_t longest_token() const { return longest_; }
  const std::bitset<256>& single_bytes() const { return single_bytes_; }  // those that are tokens on their own
  std::string_view bytes(TokenId token) const;  // nothing for an id that is no token, or is not text

  std::span<const Node> nodes() const { return std::span(nodes_).first(nodes_.size() - 1); }
  std::span<const TokenId> tokens(std::uint32_t node) const {
    return std::span(tokens_).subspan(nodes_[node].tokens, nodes_[node + 1].tokens - nodes_[node].tokens);
  }

  // The bytes from the root to a node, with its own.
  std::string_view path(std::uint32_t node) const {
    return bytes(tokens_[nodes_[node].tokens]).substr(0, nodes_[node].depth);
  }

  // Calls found(length) for each beginning of text that is a token, shortest first.
  template <class Found>
  void for_each_prefix(std::string_view text, const Found& found) const {
    std::uint32_t at = 0;
    auto end = static_cast<std::uint32_t>(nodes_.size() - 1);
    for (std::size_t length = 1; length <= text.size(); ++length) {
      const auto byte = static_cast<std::uint8_t>(text[length - 1]);
      while (at < end && nodes_[at].byte < byte) at = nodes_[at].end;
      if (at >= end || nodes_[at].byte != byte) return;
      if (!tokens(at).empty()) found(length);
      end = nodes_[at].end;
      ++at;
    }
  }

 private:
  TokenTrie() = default;

  std::string text_;                   // all tokens, by id
  std::vector<std::uint32_t> begins_;  // [vocabulary + 1] in text_
  std::vector<TokenId> end_tokens_;
  std::vector<TokenId> tokens_;  // by their bytes
  std::vector<Node> nodes_;      // and one behind the last
  std::size_t longest_ = 0;
  std::bitset<256> single_bytes_;
};

}  // namespace quire
