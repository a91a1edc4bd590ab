#include "text/special_matcher.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace quire {

void SpecialMatcher::add(std::string_view text, TokenId id, When when) {
  std::uint32_t node = kRoot;
  for (const char byte : text) {
    std::uint32_t next = child(node, byte);
    if (next == kRoot) {
      next = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back({byte, 0, nodes_[node].first_child, std::nullopt, When::always});
      nodes_[node].first_child = next;
      if (node == kRoot) roots_children_[static_cast<std::uint8_t>(byte)] = next;
    }
    node = next;
  }
  nodes_[node].id = id;
  nodes_[node].when = when;
  longest_ = std::max(longest_, text.size());
}

std::uint32_t SpecialMatcher::child(std::uint32_t node, char byte) const {
  if (node == kRoot) return roots_children_[static_cast<std::uint8_t>(byte)];
  std::uint32_t next = nodes_[node].first_child;
  while (next != kRoot && nodes_[next].byte != byte) next = nodes_[next].sibling;
  return next;
}

std::optional<SpecialMatcher::Match> SpecialMatcher::longest_at(std::string_view text, std::size_t begin,
                                                                std::size_t limit, bool parsing) const {
  std::optional<Match> longest;
  std::uint32_t node = kRoot;
  for (std::size_t i = begin; i < text.size() && i - begin < limit; ++i) {
    node = child(node, text[i]);
    if (node == kRoot) break;
    const Node& token = nodes_[node];
    if (!token.id || (token.when == When::only_if_parsing && !parsing)) continue;
    longest = {begin, static_cast<std::uint32_t>(i + 1 - begin), *token.id};
  }
  return longest;
}

std::vector<SpecialMatcher::Match> SpecialMatcher::find(std::string_view text, bool parsing) const {
  std::vector<std::vector<Match>> by_length(longest_ + 1);
  bool any = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (const auto match = longest_at(text, at, std::numeric_limits<std::size_t>::max(), parsing)) {
      by_length[match->length].push_back(*match);
      any = true;
    }
  }
  std::vector<Match> accepted;
  if (!any) return accepted;

  std::vector<bool> taken(text.size());
  for (std::size_t length = longest_; length > 0; --length) {
    auto& matches = by_length[length];
    std::sort(matches.begin(), matches.end(),
              [](const Match& a, const Match& b) { return std::tie(a.id, a.begin) < std::tie(b.id, b.begin); });
    for (const Match& match : matches) {
      if (taken[match.begin]) continue;
      // What is taken was taken by something at least as long: it would cover one of the two ends.
      if (taken[match.begin + length - 1]) {
        const auto shorter = longest_at(text, match.begin, length - 1, parsing);
        if (shorter) by_length[shorter->length].push_back(*shorter);
        continue;
      }
      std::fill_n(taken.begin() + static_cast<std::ptrdiff_t>(match.begin), length, true);
      accepted.push_back(match);
    }
  }
  std::sort(accepted.begin(), accepted.end(), [](const Match& a, const Match& b) { return a.begin < b.begin; });
  return accepted;
}

}  // namespace quire
