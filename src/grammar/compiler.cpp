// From expressions to automata: nodes and edges, the shortest ways out, and what cannot be run.
#include <algorithm>
#include <array>
#include <bitset>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "core/check.h"
#include "core/fail.h"
#include "grammar/builder.h"

namespace quire::grammar {

class GrammarBuilder::Compiler {
 public:
  explicit Compiler(const GrammarBuilder& source) : source_(source) {}

  Result<Grammar> run(Rule root) {
    for (std::size_t rule = 0; rule < source_.bodies_.size(); ++rule) {
      starts_.push_back(new_node());
      ends_.push_back(new_node());
    }
    for (std::size_t rule = 0; rule < source_.bodies_.size(); ++rule) {
      QUIRE_ASSERT(source_.bodies_[rule].has_value(), "a rule was declared and not defined");
      write(*source_.bodies_[rule], starts_[rule], ends_[rule]);
    }
    if (too_large()) {
      return fail(
          Errc::unsupported,
          "the grammar is too large: written out it has more than {} nodes or {} edges; use smaller repeat counts",
          kMostNodes, kMostEdges);
    }
    seen_by_.assign(node_count_, starts_.size());
    grammar_.start_ = starts_[index(root)];
    sort_edges();
    find_ways_out();
    if (grammar_.way_out(grammar_.start_) == Grammar::kNoWayOut) {
      return fail(Errc::invalid_argument, "no text of at most {} bytes satisfies the grammar", Grammar::kLongestWayOut);
    }
    QUIRE_CHECK_OK(refuse_left_recursion());
    classify_bytes();
    return std::move(grammar_);
  }

 private:
  using Node = Grammar::Node;
  using Edge = Grammar::Edge;

  bool too_large() const { return node_count_ > kMostNodes || edges_.size() > kMostEdges; }
  Node new_node() { return static_cast<Node>(node_count_++); }
  void add_edge(Node from, Edge edge) { edges_.emplace_back(from, edge); }
  void add_bytes(Node from, ByteRange range, Node to) {
    add_edge(from, {Edge::Kind::bytes, range.first, range.last, to, 0});
  }
  void add_jump(Node from, Node to) { add_edge(from, {Edge::Kind::jump, 0, 0, to, 0}); }

  // Ends early once the grammar is too large; run() says so.
  void write(Expr expr, Node from, Node to) {
    if (too_large()) return;
    const ExprData& data = source_.exprs_[index(expr)];
    switch (data.kind) {
      case ExprData::Kind::empty:
        return add_jump(from, to);
      case ExprData::Kind::literal:
        return write_literal(std::string_view(source_.text_).substr(data.first, data.count), from, to);
      case ExprData::Kind::chars:
        return write_chars(std::span(source_.sequences_).subspan(data.first, data.count), from, to);
      case ExprData::Kind::sequence:
        return write_sequence(std::span(source_.children_).subspan(data.first, data.count), from, to);
      case ExprData::Kind::choice:
        for (std::uint32_t i = 0; i < data.count; ++i) write(source_.children_[data.first + i], from, to);
        return;
      case ExprData::Kind::repeat:
        return write_repeat(source_.children_[data.first], data.least, data.most, from, to);
      case ExprData::Kind::call:
        return add_edge(from, {Edge::Kind::call, 0, 0, to, starts_[index(data.rule)]});
    }
  }

  void write_literal(std::string_view bytes, Node from, Node to) {
    if (bytes.empty()) return add_jump(from, to);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const auto byte = static_cast<std::uint8_t>(bytes[i]);
      const Node next = i + 1 == bytes.size() ? to : new_node();
      add_bytes(from, {byte, byte}, next);
      from = next;
    }
  }

  void write_chars(std::span<const Utf8Sequence> sequences, Node from, Node to) {
    std::map<std::tuple<std::uint8_t, std::uint8_t, Node>, Node> tails;  // nodes that read such a range and go there
    for (const Utf8Sequence& sequence : sequences) {
      Node target = to;
      for (std::size_t i = sequence.length; --i > 0;) {
        const auto [first, last] = sequence.bytes[i];
        const auto [known, is_new] = tails.try_emplace({first, last, target}, 0);
        if (is_new) {
          known->second = new_node();
          add_bytes(known->second, {first, last}, target);
        }
        target = known->second;
      }
      add_bytes(from, sequence.bytes[0], target);
    }
  }

  void write_sequence(std::span<const Expr> parts, Node from, Node to) {
    if (parts.empty()) return add_jump(from, to);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Node next = i + 1 == parts.size() ? to : new_node();
      write(parts[i], from, next);
      from = next;
    }
  }

  void write_repeat(Expr part, std::uint32_t least, std::uint32_t most, Node from, Node to) {
    for (std::uint32_t i = 0; i < least && !too_large(); ++i) {
      const Node next = new_node();
      write(part, from, next);
      from = next;
    }
    if (most == kUnbounded) {
      const Node loop = new_node();
      add_jump(from, loop);
      write(part, loop, loop);
      return add_jump(loop, to);
    }
    for (std::uint32_t i = least; i < most && !too_large(); ++i) {
      const Node next = new_node();
      write(part, from, next);
      add_jump(from, to);
      from = next;
    }
    add_jump(from, to);
  }

  void sort_edges() {
    std::stable_sort(edges_.begin(), edges_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    grammar_.edge_begins_.assign(node_count_ + 1, 0);
    for (const auto& [from, edge] : edges_) {
      ++grammar_.edge_begins_[from + 1];
      grammar_.edges_.push_back(edge);
    }
    for (std::size_t i = 0; i < node_count_; ++i) grammar_.edge_begins_[i + 1] += grammar_.edge_begins_[i];
  }

  // Dijkstra backwards from the ends of all rules; a call's length is known when both the rule's and the rest's are.
  void find_ways_out() {
    std::vector<std::vector<std::uint32_t>> edges_to(node_count_);  // edges whose length depends on the node
    for (std::uint32_t i = 0; i < edges_.size(); ++i) {
      const Edge& edge = edges_[i].second;
      edges_to[edge.target].push_back(i);
      if (edge.kind == Edge::Kind::call) edges_to[edge.callee].push_back(i);
    }
    std::vector<std::uint32_t>& way_out = grammar_.way_out_;
    way_out.assign(node_count_, Grammar::kNoWayOut);
    std::vector<bool> settled(node_count_);
    using Entry = std::pair<std::uint32_t, Node>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    for (const Node end : ends_) {
      way_out[end] = 0;
      queue.emplace(0, end);
    }
    while (!queue.empty()) {
      const Node node = queue.top().second;
      queue.pop();
      if (settled[node]) continue;
      settled[node] = true;
      for (const std::uint32_t i : edges_to[node]) {
        const auto& [from, edge] = edges_[i];
        std::uint32_t length = way_out[edge.target] + (edge.kind == Edge::Kind::bytes ? 1 : 0);
        if (edge.kind == Edge::Kind::call) {
          if (!settled[edge.callee] || !settled[edge.target]) continue;
          length += way_out[edge.callee];
        }
        if (length < way_out[from]) {
          way_out[from] = length;
          queue.emplace(length, from);
        }
      }
    }
  }

  // A rule that comes back to itself before it has read a byte would be called for ever.
  Result<void> refuse_left_recursion() {
    const std::size_t count = starts_.size();
    std::vector<std::vector<std::size_t>> calls_first(count);
    std::vector<std::size_t> callers(count, 0);
    for (std::size_t rule = 0; rule < count; ++rule) {
      calls_first[rule] = first_calls(rule);
      for (const std::size_t callee : calls_first[rule]) ++callers[callee];
    }
    std::vector<std::size_t> free;
    for (std::size_t rule = 0; rule < count; ++rule) {
      if (callers[rule] == 0) free.push_back(rule);
    }
    std::size_t done = 0;
    for (; !free.empty(); ++done) {
      const std::size_t rule = free.back();
      free.pop_back();
      for (const std::size_t callee : calls_first[rule]) {
        if (--callers[callee] == 0) free.push_back(callee);
      }
    }
    if (done == count) return {};
    return fail(Errc::unsupported, "rule '{}' begins with itself; write left recursion as a repetition",
                named_in_circle(calls_first, callers));
  }

  std::vector<std::size_t> first_calls(std::size_t rule) {
    std::vector<std::size_t> rules;
    std::vector<Node> open;
    const auto visit = [&](Node node) {
      if (seen_by_[node] == rule) return;
      seen_by_[node] = rule;
      open.push_back(node);
    };
    visit(starts_[rule]);
    while (!open.empty()) {
      const Node node = open.back();
      open.pop_back();
      for (const Edge& edge : grammar_.edges(node)) {
        if (edge.kind == Edge::Kind::jump) visit(edge.target);
        if (edge.kind != Edge::Kind::call) continue;
        rules.push_back(edge.callee / 2);  // rules' starts and ends were the first nodes made
        if (grammar_.way_out(edge.callee) == 0) visit(edge.target);
      }
    }
    return rules;
  }

  std::string named_in_circle(const std::vector<std::vector<std::size_t>>& calls_first,
                              const std::vector<std::size_t>& callers) const {
    for (std::size_t rule = 0; rule < callers.size(); ++rule) {
      if (callers[rule] == 0 || source_.names_[rule].empty()) continue;
      std::vector<bool> reached(callers.size());
      std::vector<std::size_t> open{rule};
      while (!open.empty()) {
        const std::size_t at = open.back();
        open.pop_back();
        for (const std::size_t callee : calls_first[at]) {
          if (callee == rule) return source_.names_[rule];
          if (!reached[callee]) open.push_back(callee);
          reached[callee] = true;
        }
      }
    }
    return "(unnamed)";
  }

  void classify_bytes() {
    std::bitset<257> borders;
    borders.set(0);
    for (const auto& [from, edge] : edges_) {
      if (edge.kind != Edge::Kind::bytes) continue;
      borders.set(edge.first);
      borders.set(edge.last + std::size_t{1});
    }
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if (borders.test(byte)) grammar_.least_bytes_.push_back(static_cast<std::uint8_t>(byte));
      grammar_.class_of_[byte] = static_cast<std::uint8_t>(grammar_.least_bytes_.size() - 1);
    }
  }

  const GrammarBuilder& source_;
  Grammar grammar_;
  std::size_t node_count_ = 0;
  std::vector<Node> starts_, ends_;   // [rules]
  std::vector<std::size_t> seen_by_;  // [nodes] the rule that came by last
  std::vector<std::pair<Node, Edge>> edges_;
};

Result<Grammar> GrammarBuilder::build(Rule root) const { return Compiler(*this).run(root); }

}  // namespace quire::grammar
