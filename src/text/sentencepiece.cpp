#include "text/sentencepiece.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string>

namespace quire {
namespace {

constexpr std::uint32_t kNoToken = 0xFFFFFFFF;

// By the first byte alone, as llama.cpp does: what follows in broken text is not looked at.
std::size_t symbol_length(std::string_view text, std::size_t at) {
  const auto lead = static_cast<std::uint8_t>(text[at]);
  const std::size_t length = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return std::min(length, text.size() - at);
}

std::string mark_spaces(std::string_view text, bool prefix) {
  std::string marked;
  marked.reserve(text.size() + text.size() / 4 + kSpaceMark.size());
  if (prefix) marked += kSpaceMark;
  for (const char c : text) {
    if (c == ' ') {
      marked += kSpaceMark;
    } else {
      marked += c;
    }
  }
  return marked;
}

}  // namespace

std::optional<std::uint8_t> parse_byte_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  std::uint8_t byte = 0;
  const char* end = token.data() + 5;
  const auto [stop, error] = std::from_chars(token.data() + 3, end, byte, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return byte;
}

SentencePiece::SentencePiece(const Vocab& vocab, bool space_prefix) : space_prefix_(space_prefix), unknown_(vocab.unk) {
  ids_.reserve(vocab.tokens.size());
  for (std::size_t i = 0; i < vocab.tokens.size(); ++i) {
    const std::string_view token = vocab.tokens[i];
    ids_.emplace(token, static_cast<TokenId>(i));
    longest_token_ = std::max(longest_token_, token.size());
    note_joints(token);
  }
  rank_by_score(vocab.scores, vocab.tokens.size());

  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const char spelled[] = {'<', '0', 'x', kHex[byte / 16], kHex[byte % 16], '>'};
    const char plain = static_cast<char>(byte);
    byte_tokens_[byte] = find({spelled, sizeof spelled});
    if (!byte_tokens_[byte]) byte_tokens_[byte] = find({&plain, 1});
    if (!byte_tokens_[byte]) byte_tokens_[byte] = unknown_;
  }
}

std::optional<TokenId> SentencePiece::find(std::string_view text) const {
  const auto found = ids_.find(text);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

void SentencePiece::rank_by_score(const std::vector<float>& scores, std::size_t count) {
  ranks_.assign(count, 0);
  if (scores.empty()) return;
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return scores[a] > scores[b]; });
  for (std::size_t i = 1; i < count; ++i) {
    ranks_[order[i]] = ranks_[order[i - 1]] + (scores[order[i]] == scores[order[i - 1]] ? 0 : 1);
  }
}

void SentencePiece::note_joints(std::string_view token) {
  for (std::size_t at = 0; (at += symbol_length(token, at)) < token.size();) {
    const auto left = static_cast<std::uint8_t>(token[at - 1]);
    const auto right = static_cast<std::uint8_t>(token[at]);
    joints_[left].set(token.substr(at).starts_with(kSpaceMark) ? 256 : right);
  }
}

bool SentencePiece::can_join(std::string_view text, std::size_t at) const {
  const auto left = static_cast<std::uint8_t>(text[at - 1]);
  const auto right = static_cast<std::uint8_t>(text[at]);
  return joints_[left].test(text.substr(at).starts_with(kSpaceMark) ? 256 : right);
}

void SentencePiece::encode(std::string_view text, bool starts_anew, Work& work) const {
  const std::string marked = mark_spaces(text, space_prefix_ && starts_anew);
  const std::string_view all = marked;
  for (std::size_t begin = 0; begin < all.size();) {
    std::size_t end = begin + symbol_length(all, begin);
    while (end < all.size() && can_join(all, end)) end += symbol_length(all, end);
    work.words.append(all.substr(begin, end - begin), work.ids,
                      [&](std::string_view part) { encode_part(part, work); });
    begin = end;
  }
}

void SentencePiece::encode_part(std::string_view part, Work& work) const {
  work.merger.clear();
  for (std::size_t at = 0; at < part.size();) {
    const std::size_t end = at + symbol_length(part, at);
    const std::optional<TokenId> id = find(part.substr(at, end - at));
    work.merger.add({id ? static_cast<std::uint32_t>(*id) : kNoToken, static_cast<std::uint32_t>(at),
                     static_cast<std::uint32_t>(end)});
    at = end;
  }
  work.merger.run(
      [&](const PairMerger::Symbol& left, const PairMerger::Symbol& right) -> std::optional<PairMerger::Merge> {
        const std::size_t length = right.end - left.begin;
        if (length > longest_token_) return std::nullopt;
        const std::optional<TokenId> id = find(part.substr(left.begin, length));
        if (!id) return std::nullopt;
        return PairMerger::Merge{ranks_[static_cast<std::size_t>(*id)], static_cast<std::uint32_t>(*id)};
      });
  work.merger.for_each([&](const PairMerger::Symbol& symbol) {
    if (symbol.id != kNoToken) {
      work.ids.push_back(static_cast<TokenId>(symbol.id));
      return;
    }
    for (std::uint32_t i = symbol.begin; i < symbol.end; ++i) {
      if (const auto id = byte_tokens_[static_cast<std::uint8_t>(part[i])]) work.ids.push_back(*id);
    }
  });
}

}  // namespace quire
