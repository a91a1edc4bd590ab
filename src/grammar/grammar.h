// A grammar over bytes, ready to run: one automaton per rule, whose edges read a byte or call
// another rule. The texts of a grammar are UTF-8.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "quire/result.h"

namespace quire {

namespace grammar {
class GrammarBuilder;
}

class Grammar {
 public:
  using Node = std::uint32_t;
  // Where nothing shorter than this leads to the end of a rule, nothing does.
  static constexpr std::uint32_t kLongestWayOut = 16384;
  static constexpr std::uint32_t kNoWayOut = kLongestWayOut + 1;

  struct Edge {
    enum class Kind : std::uint8_t { bytes, jump, call };
    Kind kind;
    std::uint8_t first, last;  // bytes: the range
    Node target;               // call: where to go on after the rule
    Node callee;               // call: where the rule starts
  };

  Node start() const { return start_; }
  std::span<const Edge> edges(Node node) const {
    return std::span(edges_).subspan(edge_begins_[node], edge_begins_[node + 1] - edge_begins_[node]);
  }
  bool ends_rule(Node node) const { return way_out_[node] == 0 && edge_begins_[node] == edge_begins_[node + 1]; }
  // The fewest bytes from here to the end of the node's rule.
  std::uint32_t way_out(Node node) const { return way_out_[node]; }
  std::size_t node_count() const { return way_out_.size(); }

  // The texts of this grammar that have no other bytes than these. Fails where there are none.
  Result<Grammar> limited_to(const std::bitset<256>& bytes) const;

  // Bytes of one class are alike to every edge.
  std::size_t class_count() const { return class_count_; }
  std::uint8_t class_of(std::uint8_t byte) const { return class_of_[byte]; }

 private:
  friend class grammar::GrammarBuilder;
  Grammar() = default;

  struct FromEdge {
    Node from;
    Edge edge;
  };
  // ends: of all rules.
  static Result<Grammar> create(Node start, std::size_t node_count, std::vector<FromEdge> edges,
                                const std::vector<Node>& ends);
  void find_ways_out(const std::vector<FromEdge>& edges, const std::vector<Node>& ends);
  void classify_bytes();

  Node start_ = 0;
  std::vector<Edge> edges_;                 // by node
  std::vector<std::uint32_t> edge_begins_;  // [nodes + 1]
  std::vector<std::uint32_t> way_out_;      // [nodes]
  std::array<std::uint8_t, 256> class_of_{};
  std::size_t class_count_ = 0;
};

// Rules as llama.cpp writes them, from `root`. Left recursion is refused.
Result<Grammar> parse_gbnf(std::string_view source);

// What the whole of a text must match. No look-around, back-references or word borders.
Result<Grammar> grammar_of_regex(std::string_view pattern);

// Texts that are valid by a JSON schema: objects with their properties in the schema's order, white space only
// as one space after ':' and ','. Where `additionalProperties` is not said and `properties` is, there are no
// others. A keyword that would change the meaning and is not known is refused.
Result<Grammar> grammar_of_schema(std::string_view schema);

// Any JSON object, spaced as above.
Grammar json_grammar();

}  // namespace quire
