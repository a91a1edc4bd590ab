#include "engine/prompt_lookup.h"

#include <algorithm>

namespace quire {
namespace {

std::uint64_t hash(std::span<const TokenId> tokens) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const TokenId token : tokens) h = (h ^ static_cast<std::uint64_t>(token)) * 0x100000001b3;
  return h;
}

}  // namespace

// The last kContext tokens themselves are left out: they would only find themselves.
void PromptLookup::index(std::span<const TokenId> tokens) {
  const std::int64_t end = std::ssize(tokens) - 1;
  for (std::int64_t at = std::max(indexed_, kContext); at <= end; ++at) {
    after_[hash(tokens.subspan(static_cast<std::size_t>(at - kContext), kContext))] = at;
  }
  indexed_ = std::max(indexed_, end + 1);
}

std::vector<TokenId> PromptLookup::propose(std::span<const TokenId> tokens, std::int64_t most) {
  if (std::ssize(tokens) <= kContext) return {};
  index(tokens);
  const auto found = after_.find(hash(tokens.last(kContext)));
  if (found == after_.end()) return {};
  const auto from = static_cast<std::size_t>(found->second);
  if (!std::ranges::equal(tokens.subspan(from - kContext, kContext), tokens.last(kContext))) return {};
  const std::size_t count = std::min(tokens.size() - from, static_cast<std::size_t>(std::max<std::int64_t>(most, 0)));
  return {tokens.begin() + static_cast<std::ptrdiff_t>(from),
          tokens.begin() + static_cast<std::ptrdiff_t>(from + count)};
}

}  // namespace quire
