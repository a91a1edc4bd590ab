// Regular expressions as parts of a grammar.
#pragma once

#include <functional>
#include <string_view>

#include "grammar/builder.h"
#include "quire/result.h"

namespace quire::grammar {

// spell: how a character of a set is written in the output.
// around: what may stand before and after a pattern without ^ or $.
struct RegexContext {
  std::function<GrammarBuilder::Expr(const CodePointSet&)> spell;
  GrammarBuilder::Expr around;
};

Result<GrammarBuilder::Expr> regex_expression(GrammarBuilder& builder, std::string_view pattern,
                                              const RegexContext& context);

}  // namespace quire::grammar
