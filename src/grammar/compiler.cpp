// From expressions to automata.
#include <map>
#include <tuple>
#include <utility>

#include "core/check.h"
#include "core/fail.h"
#include "grammar/builder.h"

namespace quire::grammar {

// Nested in a friend of Grammar.
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
    Result<Grammar> grammar = Grammar::create(starts_[index(root)], node_count_, std::move(edges_), ends_);
    if (!grammar.ok()) return grammar;
    QUIRE_CHECK_OK(refuse_left_recursion(*grammar));
    return grammar;
  }

 private:
  using Node = Grammar::Node;
  using Edge = Grammar::Edge;

  bool too_large() const { return node_count_ > kMostNodes || edges_.size() > kMostEdges; }
  Node new_node() { return static_cast<Node>(node_count_++); }
  void add_edge(Node from, Edge edge) { edges_.push_back({from, edge}); }
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

  // A rule that comes back to itself before it has read a byte would be called for ever.
  Result<void> refuse_left_recursion(const Grammar& grammar) {
    seen_by_.assign(node_count_, starts_.size());
    const std::size_t count = starts_.size();
    std::vector<std::vector<std::size_t>> calls_first(count);
    std::vector<std::size_t> callers(count, 0);
    for (std::size_t rule = 0; rule < count; ++rule) {
      calls_first[rule] = first_calls(grammar, rule);
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

  std::vector<std::size_t> first_calls(const Grammar& grammar, std::size_t rule) {
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
      for (const Edge& edge : grammar.edges(node)) {
        if (edge.kind == Edge::Kind::jump) visit(edge.target);
        if (edge.kind != Edge::Kind::call) continue;
        rules.push_back(edge.callee / 2);  // rules' starts and ends were the first nodes made
        if (grammar.way_out(edge.callee) == 0) visit(edge.target);
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

  const GrammarBuilder& source_;
  std::size_t node_count_ = 0;
  std::vector<Node> starts_, ends_;   // [rules]
  std::vector<std::size_t> seen_by_;  // [nodes] the rule that came by last
  std::vector<Grammar::FromEdge> edges_;
};

Result<Grammar> GrammarBuilder::build(Rule root) const { return Compiler(*this).run(root); }

}  // namespace quire::grammar
