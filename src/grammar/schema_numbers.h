// Numbers between bounds, as digits.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "grammar/builder.h"
#include "quire/result.h"

namespace quire::grammar {

struct NumberBound {
  double value;
  bool exclusive;
};

struct NumberBounds {
  std::optional<NumberBound> low, high;
};

// Without an exponent. path names the schema in errors.
Result<GrammarBuilder::Expr> bounded_number(GrammarBuilder& builder, const NumberBounds& bounds,
                                            const std::string& path);
Result<GrammarBuilder::Expr> bounded_integer(GrammarBuilder& builder, const NumberBounds& bounds,
                                             const std::string& path);

// Integers that a small number divides.
GrammarBuilder::Expr multiple_of(GrammarBuilder& builder, std::uint32_t divisor);

}  // namespace quire::grammar
