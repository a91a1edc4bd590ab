// The parts of JSON as grammar rules.
//
// White space is one optional space after ',' and ':', so that a model can write as it is used to
// and cannot go on in white space for ever. Numbers are bounded for the same reason: 15 digits
// before the point, which a double holds exactly, 15 behind it, and exponents of two digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/builder.h"

namespace quire::grammar {

inline constexpr std::uint32_t kMostDigits = 15;

class JsonRules {
 public:
  using Expr = GrammarBuilder::Expr;
  using Rule = GrammarBuilder::Rule;

  explicit JsonRules(GrammarBuilder& builder);

  Expr value() { return builder_.call(value_); }
  Expr object() { return builder_.call(object_); }
  Expr array() { return builder_.call(array_); }
  Expr string() { return builder_.call(string_); }
  Expr number() { return builder_.call(number_); }
  Expr integer() { return builder_.call(integer_); }
  Expr boolean() { return builder_.one_of({"true", "false"}); }
  Expr null() { return builder_.literal("null"); }

  Expr comma() { return builder_.call(comma_); }
  Expr colon() { return builder_.call(colon_); }
  Expr string_char() { return builder_.call(char_); }  // any character of a string, in any spelling
  Expr spelled(const CodePointSet& set);               // one of these, as it is spelled in a string
  Expr quoted(Expr content);
  Expr list(Expr item, std::uint32_t least, std::uint32_t most);  // with commas between
  // A string that is none of these, without escapes: they would spell the names in other ways.
  Expr key_other_than(const std::vector<std::string>& names);

 private:
  void define_string();
  void define_numbers();
  Expr digits(std::uint32_t least, std::uint32_t most);

  GrammarBuilder& builder_;
  Rule value_, object_, array_, string_, number_, integer_, comma_, colon_, char_;
};

}  // namespace quire::grammar
