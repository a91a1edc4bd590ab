#include "grammar/token_trie.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/fail.h"

namespace quire {

Result<TokenTrie> TokenTrie::create(std::size_t vocabulary, const std::function<std::string_view(TokenId)>& bytes_of,
                                    std::vector<TokenId> end_tokens) {
  TokenTrie trie;
  trie.end_tokens_ = std::move(end_tokens);
  for (const TokenId token : trie.end_tokens_) {
    if (token < 0 || static_cast<std::size_t>(token) >= vocabulary) {
      return fail(Errc::invalid_argument, "end token {} is not among the {} tokens", token, vocabulary);
    }
  }
  for (std::size_t i = 0; i < vocabulary; ++i) {
    const auto token = static_cast<TokenId>(i);
    const bool ends = std::find(trie.end_tokens_.begin(), trie.end_tokens_.end(), token) != trie.end_tokens_.end();
    const std::string_view text = ends ? std::string_view() : bytes_of(token);
    if (text.size() > std::numeric_limits<std::uint16_t>::max()) {
      return fail(Errc::unsupported, "token {} has {} bytes; at most 65,535 are expected", i, text.size());
    }
    trie.begins_.push_back(static_cast<std::uint32_t>(trie.text_.size()));
    trie.text_ += text;
    trie.longest_ = std::max(trie.longest_, text.size());
    if (!text.empty()) trie.tokens_.push_back(token);
    if (text.size() == 1) trie.single_bytes_.set(static_cast<std::uint8_t>(text[0]));
  }
  trie.begins_.push_back(static_cast<std::uint32_t>(trie.text_.size()));

  std::stable_sort(trie.tokens_.begin(), trie.tokens_.end(),
                   [&](TokenId a, TokenId b) { return trie.bytes(a) < trie.bytes(b); });
  std::vector<std::uint32_t> path;  // nodes that lead to the last token
  std::string_view last;
  const auto close_to = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back())
      trie.nodes_[path.back()].end = static_cast<std::uint32_t>(trie.nodes_.size());
  };
  for (std::uint32_t i = 0; i < trie.tokens_.size(); ++i) {
    const std::string_view text = trie.bytes(trie.tokens_[i]);
    const auto shared = static_cast<std::size_t>(
        std::mismatch(text.begin(), text.end(), last.begin(), last.end()).first - text.begin());
    close_to(shared);
    for (std::size_t depth = shared; depth < text.size(); ++depth) {
      path.push_back(static_cast<std::uint32_t>(trie.nodes_.size()));
      trie.nodes_.push_back({0, i, static_cast<std::uint16_t>(depth + 1), static_cast<std::uint8_t>(text[depth])});
    }
    last = text;
  }
  close_to(0);
  trie.nodes_.push_back({0, static_cast<std::uint32_t>(trie.tokens_.size()), 0, 0});
  return trie;
}

std::string_view TokenTrie::bytes(TokenId token) const {
  const auto i = static_cast<std::size_t>(token);
  if (token < 0 || i >= vocabulary()) return {};
  return std::string_view(text_).substr(begins_[i], begins_[i + 1] - begins_[i]);
}

}  // namespace quire
