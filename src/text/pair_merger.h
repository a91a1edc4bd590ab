// The loop at the heart of both kinds of tokenizer: of all neighbouring symbols that can merge,
// the pair of the lowest rank does, the leftmost of equals first, until none is left.
//
// Symbols form a linked list and candidates a queue, so n symbols cost O(n log n) at worst. The
// queue is never searched: a symbol knows the rank of the pair it begins, and a candidate that
// says otherwise is out of date and is dropped when its turn comes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace quire {

class PairMerger {
 public:
  struct Symbol {
    std::uint32_t id;          // the caller's
    std::uint32_t begin, end;  // bytes of the text
  };
  struct Merge {
    std::uint32_t rank;
    std::uint32_t id;  // of the merged symbol
  };
  static constexpr std::uint32_t kNoRank = 0xFFFFFFFF;  // no Merge may have it

  // Keeps its memory, so that one merger serves all words of a text.
  void clear() { nodes_.clear(); }
  void add(Symbol symbol) {
    const auto at = static_cast<std::uint32_t>(nodes_.size());
    nodes_.push_back({symbol, at - 1, at + 1, kNoRank, 0});
  }

  // find(left, right) -> std::optional<Merge>
  template <class Find>
  void run(Find&& find) {
    if (nodes_.empty()) return;
    nodes_.front().prev = nodes_.back().next = kNone;
    first_.clear();
    later_.clear();
    for (std::uint32_t at = 0; at + 1 < nodes_.size(); ++at) {
      if (look_up(at, find)) first_.push_back(candidate(at));
    }
    std::sort(first_.begin(), first_.end());

    for (auto first = first_.begin(); first != first_.end() || !later_.empty();) {
      const bool from_first = later_.empty() || (first != first_.end() && *first < later_.front());
      const std::uint64_t best = from_first ? *first++ : pop_later();
      const auto rank = static_cast<std::uint32_t>(best >> 32);
      const auto at = static_cast<std::uint32_t>(best);
      if (nodes_[at].rank != rank) continue;

      absorb_next(at);
      if (look_up(at, find)) push_later(at);
      const std::uint32_t prev = nodes_[at].prev;
      if (prev != kNone && look_up(prev, find)) push_later(prev);
    }
  }

  // Calls emit(symbol) for what is left, in order.
  template <class Emit>
  void for_each(Emit&& emit) const {
    if (nodes_.empty()) return;
    for (std::uint32_t at = 0; at != kNone; at = nodes_[at].next) emit(nodes_[at].symbol);
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  struct Node {
    Symbol symbol;
    std::uint32_t prev, next;
    std::uint32_t rank;    // of the pair this symbol and the next make, kNoRank if they cannot merge
    std::uint32_t merged;  // and the id it makes
  };

  template <class Find>
  bool look_up(std::uint32_t at, Find&& find) {
    Node& node = nodes_[at];
    node.rank = kNoRank;
    if (node.next == kNone) return false;
    const std::optional<Merge> merge = find(node.symbol, nodes_[node.next].symbol);
    if (!merge) return false;
    node.rank = merge->rank;
    node.merged = merge->id;
    return true;
  }

  void absorb_next(std::uint32_t at) {
    Node& node = nodes_[at];
    Node& next = nodes_[node.next];
    node.symbol = {node.merged, node.symbol.begin, next.symbol.end};
    node.next = next.next;
    if (node.next != kNone) nodes_[node.next].prev = at;
    next.rank = kNoRank;
  }

  // Rank above position: integers compare as candidates should.
  std::uint64_t candidate(std::uint32_t at) const { return (std::uint64_t{nodes_[at].rank} << 32) | at; }
  void push_later(std::uint32_t at) {
    later_.push_back(candidate(at));
    std::push_heap(later_.begin(), later_.end(), std::greater<>());
  }
  std::uint64_t pop_later() {
    std::pop_heap(later_.begin(), later_.end(), std::greater<>());
    const std::uint64_t best = later_.back();
    later_.pop_back();
    return best;
  }

  std::vector<Node> nodes_;
  std::vector<std::uint64_t> first_;  // candidates known from the start: sorted once, which is cheaper than a heap
  std::vector<std::uint64_t> later_;  // a heap of those that merges make
};

}  // namespace quire
