// What may follow an operand: subscripts, attributes, calls, filters and tests.
#include <algorithm>
#include <array>

#include "core/fail.h"
#include "text/jinja_expression_parser.h"

namespace quire::jinja {
namespace {

using Kind = Expr::Kind;

bool starts_operand(const Token& token) {
  switch (token.kind) {
    case Token::Kind::name:
      return token.text != "else" && token.text != "or" && token.text != "and";
    case Token::Kind::string:
    case Token::Kind::integer:
    case Token::Kind::real:
      return true;
    default:
      return token.is_op("[") || token.is_op("{");
  }
}

}  // namespace

Result<ExprPtr> ExpressionParser::parse_postfix(ExprPtr e) {
  for (;;) {
    if (current().is_op(".") || current().is_op("[")) {
      QUIRE_TRY(e, parse_subscript(std::move(e)));
    } else if (current().is_op("(")) {
      QUIRE_TRY(e, parse_call(std::move(e)));
    } else {
      return e;
    }
  }
}

Result<ExprPtr> ExpressionParser::parse_subscript(ExprPtr e) {
  Expr item{Kind::item, current().line};
  item.parts.push_back(std::move(e));
  if (accept_op(".")) {
    if (current().kind == Token::Kind::integer) {
      QUIRE_TRY(ExprPtr index, parse_primary());
      item.parts.push_back(std::move(index));
    } else {
      item.kind = Kind::attribute;
      QUIRE_TRY(item.name, expect_identifier());
    }
    return finish(std::move(item));
  }
  advance();
  const auto parse_bound = [&]() -> Result<ExprPtr> {
    if (current().is_op(":") || current().is_op("]")) return ExprPtr();
    return parse_expression();
  };
  QUIRE_TRY(ExprPtr first, parse_bound());
  const bool is_slice = current().is_op(":");
  if (!first && !is_slice) return unexpected();
  item.parts.push_back(std::move(first));
  if (is_slice) {
    item.kind = Kind::slice;
    while (item.parts.size() < 4 && accept_op(":")) {
      QUIRE_TRY(ExprPtr bound, parse_bound());
      item.parts.push_back(std::move(bound));
    }
    item.parts.resize(4);
  }
  QUIRE_CHECK_OK(expect_op("]"));
  return finish(std::move(item));
}

Result<ExprPtr> ExpressionParser::parse_filters(ExprPtr subject) {
  for (;;) {
    if (accept_op("|")) {
      QUIRE_TRY(subject, parse_filter_name(std::move(subject)));
    } else if (current().is_name("is")) {
      QUIRE_TRY(subject, parse_test(std::move(subject)));
    } else if (current().is_op("(")) {
      QUIRE_TRY(subject, parse_call(std::move(subject)));
    } else {
      return subject;
    }
  }
}

Result<ExprPtr> ExpressionParser::parse_filter_name(ExprPtr subject) {
  Expr filter{Kind::filter, current().line};
  QUIRE_TRY(filter.name, expect_dotted_name());
  filter.parts.push_back(std::move(subject));
  if (current().is_op("(")) {
    QUIRE_CHECK_OK(parse_arguments(filter));
  }
  return finish(std::move(filter));
}

Result<ExprPtr> ExpressionParser::parse_test(ExprPtr subject) {
  Expr test{Kind::test, current().line};
  advance();
  const bool negated = accept_name("not");
  QUIRE_TRY(test.name, expect_dotted_name());
  test.parts.push_back(std::move(subject));
  if (current().is_op("(")) {
    QUIRE_CHECK_OK(parse_arguments(test));
  } else if (starts_operand(current())) {
    if (current().is_name("is")) return syntax_error(current().line, "tests cannot be chained with 'is'");
    QUIRE_TRY(ExprPtr operand, parse_primary());
    QUIRE_TRY(operand, parse_postfix(std::move(operand)));
    test.parts.push_back(std::move(operand));
  }
  if (!negated) return finish(std::move(test));
  Expr inverse{Kind::logical_not, test.line};
  QUIRE_TRY(ExprPtr inner, finish(std::move(test)));
  inverse.parts.push_back(std::move(inner));
  return finish(std::move(inverse));
}

Result<ExprPtr> ExpressionParser::parse_call(ExprPtr callee) {
  Expr call{Kind::call, current().line};
  call.parts.push_back(std::move(callee));
  QUIRE_CHECK_OK(parse_arguments(call));
  return finish(std::move(call));
}

Result<void> ExpressionParser::parse_arguments(Expr& call) {
  QUIRE_CHECK_OK(expect_op("("));
  while (!current().is_op(")")) {
    QUIRE_CHECK_OK(parse_argument(call));
    if (!accept_op(",")) break;
  }
  return expect_op(")");
}

Result<void> ExpressionParser::parse_argument(Expr& call) {
  if (call.star_star) return syntax_error(current().line, "nothing can follow a ** argument");
  if (accept_op("**")) {
    QUIRE_TRY(call.star_star, parse_expression());
  } else if (current().is_op("*") && !call.star) {
    advance();
    QUIRE_TRY(call.star, parse_expression());
  } else if (current().kind == Token::Kind::name && look_ahead().is_op("=")) {
    std::string name = current().text;
    advance();
    advance();
    QUIRE_TRY(ExprPtr value, parse_expression());
    call.named.emplace_back(std::move(name), std::move(value));
  } else if (call.named.empty() && !call.star) {
    QUIRE_TRY(ExprPtr value, parse_expression());
    call.parts.push_back(std::move(value));
  } else {
    return syntax_error(current().line, "an argument without a name follows one with a name");
  }
  return {};
}

}  // namespace quire::jinja
