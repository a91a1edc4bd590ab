// Expressions and rules, from which a Grammar is built.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/code_points.h"
#include "grammar/grammar.h"
#include "quire/result.h"

namespace quire::grammar {

class GrammarBuilder {
 public:
  enum class Expr : std::uint32_t {};
  enum class Rule : std::uint32_t {};
  static constexpr std::uint32_t kUnbounded = std::numeric_limits<std::uint32_t>::max();

  // Larger automata are refused; repetitions are written out, so this bounds them too.
  static constexpr std::size_t kMostNodes = std::size_t{1} << 18;
  static constexpr std::size_t kMostEdges = std::size_t{1} << 20;

  Expr empty();
  Expr literal(std::string_view bytes);
  Expr chars(const CodePointSet& set);  // any one of them; the empty set matches nothing
  Expr sequence(std::vector<Expr> parts);
  Expr choice(std::vector<Expr> options);
  Expr repeat(Expr part, std::uint32_t least, std::uint32_t most);
  Expr call(Rule rule);

  Expr optional(Expr part) { return repeat(part, 0, 1); }
  Expr any_of(std::string_view ascii);  // one of these characters
  // One of these texts, shared as far as their beginnings agree.
  Expr one_of(std::vector<std::string> texts);

  Rule declare(std::string name);
  void define(Rule rule, Expr expr);
  bool is_defined(Rule rule) const { return bodies_[index(rule)].has_value(); }
  // An unnamed rule; `call(add(e))` shares what would be written out twice.
  Rule add(Expr expr);

  Result<Grammar> build(Rule root) const;

 private:
  class Compiler;
  struct ExprData {
    enum class Kind : std::uint8_t { empty, literal, chars, sequence, choice, repeat, call };
    Kind kind;
    std::uint32_t first = 0,
                  count = 0;  // literal: in text_; chars: in sequences_; sequence, choice, repeat: in children_
    std::uint32_t least = 0, most = 0;  // repeat
    Rule rule{};                        // call
  };

  static std::size_t index(Rule rule) { return static_cast<std::size_t>(rule); }
  static std::size_t index(Expr expr) { return static_cast<std::size_t>(expr); }
  Expr push(const ExprData& data);
  Expr one_of_sorted(std::span<const std::string> texts, std::size_t from);

  std::vector<ExprData> exprs_;
  std::string text_;
  std::vector<Utf8Sequence> sequences_;
  std::vector<Expr> children_;
  std::vector<std::string> names_;           // [rules]
  std::vector<std::optional<Expr>> bodies_;  // [rules]
};

}  // namespace quire::grammar
