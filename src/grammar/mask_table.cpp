#include "grammar/mask_table.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "core/check.h"

namespace quire {
namespace {

constexpr std::int32_t kUnknown = -1;

void set_bit(std::span<std::uint64_t> bits, TokenId token) {
  const auto i = static_cast<std::size_t>(token);
  bits[i / 64] |= std::uint64_t{1} << (i % 64);
}

}  // namespace

MaskTable::MaskTable(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> vocabulary)
    : vocabulary_(std::move(vocabulary)), automaton_(std::move(grammar)), path_(vocabulary_->longest_token() + 1) {}

void MaskTable::TokenSet::add_to(std::span<std::uint64_t> target) const {
  for (std::size_t i = 0; i < bits.size(); ++i) target[i] |= bits[i];
  for (const TokenId token : list) set_bit(target, token);
}

template <class Visit>
void MaskTable::walk(State from, std::uint32_t first, std::uint32_t last, const Visit& visit) {
  if (first == last) return;
  const std::span<const TokenTrie::Node> nodes = vocabulary_->nodes();
  path_[nodes[first].depth - 1u] = from;
  for (std::uint32_t i = first; i < last;) {
    const TokenTrie::Node node = nodes[i];
    const State state = automaton_.step(path_[node.depth - 1u], node.byte);
    path_[node.depth] = state;
    i = state != Automaton::kDead && visit(i, state) ? i + 1 : node.end;
  }
}

template <class Visit>
void MaskTable::walk_all(State from, const Visit& visit) {
  walk(from, 0, static_cast<std::uint32_t>(vocabulary_->nodes().size()), visit);
}

template <class Found>
void MaskTable::walk_leaves(State state, const Inside& inside, const Found& found) {
  const auto visit = [&](std::uint32_t node, State to) {
    const std::span<const TokenId> tokens = vocabulary_->tokens(node);
    if (!tokens.empty()) found(tokens, to);
    return true;
  };
  for (const std::uint32_t leave : inside.leaves) {
    const State at = after(state, vocabulary_->path(leave));
    if (at == Automaton::kDead) continue;
    visit(leave, at);
    walk(at, leave + 1, vocabulary_->nodes()[leave].end, visit);
  }
}

MaskTable::State MaskTable::after(State state, std::string_view bytes) {
  for (const char byte : bytes) state = automaton_.step(state, static_cast<std::uint8_t>(byte));
  return state;
}

void MaskTable::fill(State state, std::int64_t remaining, std::span<std::uint64_t> bits) {
  QUIRE_ASSERT(bits.size() == (vocabulary_->vocabulary() + 63) / 64, "a mask of another vocabulary");
  std::fill(bits.begin(), bits.end(), 0);
  if (automaton_.complete(state)) {
    for (const TokenId token : vocabulary_->end_tokens()) set_bit(bits, token);
  }
  if (remaining <= 0) return;
  const Mask& mask = mask_of(state);
  if (mask.worst >= remaining) return fill_closely(state, remaining, bits);
  mask.allowed.add_to(bits);
  mask.inside->allowed.add_to(bits);
}

void MaskTable::fill_closely(State state, std::int64_t remaining, std::span<std::uint64_t> bits) {
  const State inside = automaton_.split(state).inside;
  for (const Group& group : groups_of(inside)) {
    const State to = after(state, vocabulary_->bytes(group.sample));
    if (to != Automaton::kDead && tokens_to_close(to) < remaining) group.tokens.add_to(bits);
  }
  walk_leaves(state, inside_of(inside), [&](std::span<const TokenId> tokens, State to) {
    if (tokens_to_close(to) >= remaining) return;
    for (const TokenId token : tokens) set_bit(bits, token);
  });
}

const MaskTable::Mask& MaskTable::mask_of(State state) {
  if (const auto known = masks_.find(state); known != masks_.end()) return known->second;
  const Automaton::Split split = automaton_.split(state);
  Mask mask{&inside_of(split.inside), {}, 0};
  if (mask.inside->worst > 0) {
    mask.worst = mask.inside->worst + (split.outside == Automaton::kDead ? 0 : tokens_to_close(split.outside));
  }
  std::vector<TokenId> allowed;
  walk_leaves(state, *mask.inside, [&](std::span<const TokenId> tokens, State to) {
    mask.worst = std::max(mask.worst, tokens_to_close(to));
    allowed.insert(allowed.end(), tokens.begin(), tokens.end());
  });
  mask.allowed = packed(std::move(allowed));
  kept_bytes_ += sizeof(Mask);
  return masks_.emplace(state, std::move(mask)).first->second;
}

const MaskTable::Inside& MaskTable::inside_of(State state) {
  const auto [known, is_new] = insides_.try_emplace(state);
  Inside& inside = known->second;
  if (!is_new) return inside;
  std::vector<TokenId> allowed;
  walk_all(state, [&](std::uint32_t node, State to) {
    if (automaton_.complete(to)) {
      inside.leaves.push_back(node);
      return false;
    }
    const std::span<const TokenId> tokens = vocabulary_->tokens(node);
    if (!tokens.empty()) inside.worst = std::max(inside.worst, tokens_to_close(to));
    allowed.insert(allowed.end(), tokens.begin(), tokens.end());
    return true;
  });
  inside.allowed = packed(std::move(allowed));
  kept_bytes_ += sizeof(Inside) + inside.leaves.size() * sizeof(std::uint32_t);
  return inside;
}

const std::vector<MaskTable::Group>& MaskTable::groups_of(State inside) {
  const auto [known, is_new] = groups_.try_emplace(inside);
  if (!is_new) return known->second;
  std::unordered_map<State, std::vector<TokenId>> tokens_by_state;
  walk_all(inside, [&](std::uint32_t node, State to) {
    if (automaton_.complete(to)) return false;
    const std::span<const TokenId> tokens = vocabulary_->tokens(node);
    if (tokens.empty()) return true;
    std::vector<TokenId>& alike = tokens_by_state[to];
    alike.insert(alike.end(), tokens.begin(), tokens.end());
    return true;
  });
  for (auto& [state, tokens] : tokens_by_state) {
    const TokenId sample = tokens.front();
    known->second.push_back({sample, packed(std::move(tokens))});
  }
  kept_bytes_ += known->second.size() * sizeof(Group);
  return known->second;
}

MaskTable::TokenSet MaskTable::packed(std::vector<TokenId> tokens) {
  const std::size_t words = (vocabulary_->vocabulary() + 63) / 64;
  TokenSet set;
  if (tokens.size() < words) {
    set.list = std::move(tokens);
    set.list.shrink_to_fit();
  } else {
    set.bits.resize(words);
    for (const TokenId token : tokens) set_bit(set.bits, token);
  }
  kept_bytes_ += set.list.size() * sizeof(TokenId) + set.bits.size() * sizeof(std::uint64_t);
  return set;
}

std::int64_t MaskTable::tokens_to_close(State state) {
  const auto known = [&](State s) {
    return automaton_.complete(s) ? 0 : s < tokens_to_close_.size() ? tokens_to_close_[s] : kUnknown;
  };
  if (const std::int32_t count = known(state); count != kUnknown) return count;

  // Along the shortest completion to states that are known, and one token's length further: tokens may span.
  std::vector<State> way{state};
  std::string text;
  std::size_t unknown = 1;
  while (!automaton_.complete(way.back()) && way.size() < unknown + vocabulary_->longest_token()) {
    const std::uint8_t byte = automaton_.closing_byte(way.back());
    text += static_cast<char>(byte);
    way.push_back(automaton_.step(way.back(), byte));
    QUIRE_ASSERT(way.back() != Automaton::kDead, "the shortest completion cannot be written");
    if (known(way.back()) == kUnknown) unknown = way.size();
  }
  tokens_to_close_.resize(std::max(tokens_to_close_.size(), automaton_.state_count()), kUnknown);
  for (std::size_t i = unknown; i-- > 0;) {
    std::int32_t fewest = std::numeric_limits<std::int32_t>::max();
    vocabulary_->for_each_prefix(std::string_view(text).substr(i),
                                 [&](std::size_t length) { fewest = std::min(fewest, known(way[i + length])); });
    QUIRE_ASSERT(fewest != std::numeric_limits<std::int32_t>::max(), "no token begins the shortest completion");
    tokens_to_close_[way[i]] = fewest + 1;
  }
  return tokens_to_close_[state];
}

}  // namespace quire
