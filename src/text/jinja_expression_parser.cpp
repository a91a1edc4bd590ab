#include "text/jinja_expression_parser.h"

#include <algorithm>
#include <array>
#include <optional>

#include "core/fail.h"

namespace quire::jinja {
namespace {

using Kind = Expr::Kind;

struct OperatorName {
  std::string_view name;
  Operator op;
};

// Left-associative operators, the loosest first.
constexpr int kOrLevel = 0, kAndLevel = 1, kSumLevel = 2, kConcatLevel = 3, kProductLevel = 4, kPowerLevel = 5;

std::optional<Operator> chain_operator(int level, const Token& token) {
  static constexpr std::array<OperatorName, 8> kSigns = {{{"+", Operator::add},
                                                          {"-", Operator::sub},
                                                          {"~", Operator::concat},
                                                          {"*", Operator::mul},
                                                          {"/", Operator::div},
                                                          {"//", Operator::floor_div},
                                                          {"%", Operator::mod},
                                                          {"**", Operator::pow}}};
  if (level == kOrLevel) return token.is_name("or") ? std::optional(Operator::logical_or) : std::nullopt;
  if (level == kAndLevel) return token.is_name("and") ? std::optional(Operator::logical_and) : std::nullopt;
  if (token.kind != Token::Kind::op) return std::nullopt;
  for (std::size_t i = 0; i < kSigns.size(); ++i) {
    const int sign_level = i < 2 ? kSumLevel : i < 3 ? kConcatLevel : i < 7 ? kProductLevel : kPowerLevel;
    if (sign_level == level && token.text == kSigns[i].name) return kSigns[i].op;
  }
  return std::nullopt;
}

std::optional<Operator> comparison(const Token& token) {
  static constexpr std::array<OperatorName, 6> kComparisons = {{{"==", Operator::eq},
                                                                {"!=", Operator::ne},
                                                                {"<", Operator::lt},
                                                                {"<=", Operator::le},
                                                                {">", Operator::gt},
                                                                {">=", Operator::ge}}};
  if (token.is_name("in")) return Operator::in;
  if (token.kind != Token::Kind::op) return std::nullopt;
  for (const OperatorName& c : kComparisons) {
    if (token.text == c.name) return c.op;
  }
  return std::nullopt;
}

}  // namespace

bool ExpressionParser::accept_op(std::string_view s) {
  if (!current().is_op(s)) return false;
  advance();
  return true;
}

bool ExpressionParser::accept_name(std::string_view s) {
  if (!current().is_name(s)) return false;
  advance();
  return true;
}

Result<void> ExpressionParser::expect_op(std::string_view s) {
  if (!accept_op(s)) return unexpected();
  return {};
}

Result<std::string> ExpressionParser::expect_identifier() {
  if (current().kind != Token::Kind::name) return unexpected();
  std::string name = current().text;
  advance();
  return name;
}

// Filters and tests may be called a.b, though none of ours is.
Result<std::string> ExpressionParser::expect_dotted_name() {
  QUIRE_TRY(std::string name, expect_identifier());
  while (accept_op(".")) {
    QUIRE_TRY(const std::string part, expect_identifier());
    name += "." + part;
  }
  return name;
}

Error ExpressionParser::unexpected() const {
  switch (current().kind) {
    case Token::Kind::end:
      return syntax_error(current().line, "the template ends too early");
    case Token::Kind::variable_end:
    case Token::Kind::block_end:
      return syntax_error(current().line, "a tag ends too early");
    default:
      return syntax_error(current().line, fmt::format("unexpected '{}'", current().text.substr(0, 40)));
  }
}

Result<void> ExpressionParser::check_depth() const {
  if (depth_ > kMaxTreeHeight) return syntax_error(current().line, "the template is nested too deeply");
  return {};
}

Result<ExprPtr> ExpressionParser::finish(Expr e) const {
  int height = 0;
  const auto include = [&](const ExprPtr& part) { height = std::max(height, part ? part->height : 0); };
  for (const ExprPtr& part : e.parts) include(part);
  for (const auto& [name, part] : e.named) include(part);
  include(e.star);
  include(e.star_star);
  e.height = height + 1;
  if (e.height > kMaxTreeHeight) return syntax_error(e.line, "an expression is nested too deeply");
  return std::make_unique<const Expr>(std::move(e));
}

Result<ExprPtr> ExpressionParser::parse_expression() {
  const Nested nested(*this);
  QUIRE_CHECK_OK(check_depth());
  QUIRE_TRY(ExprPtr e, parse_or());
  while (current().is_name("if")) {
    Expr conditional{Kind::conditional, current().line};
    advance();
    QUIRE_TRY(ExprPtr condition, parse_or());
    ExprPtr otherwise;
    if (accept_name("else")) {
      QUIRE_TRY(otherwise, parse_expression());
    }
    conditional.parts.push_back(std::move(e));
    conditional.parts.push_back(std::move(condition));
    conditional.parts.push_back(std::move(otherwise));
    QUIRE_TRY(e, finish(std::move(conditional)));
  }
  return e;
}

Result<ExprPtr> ExpressionParser::parse_or() { return parse_chain(kOrLevel); }

Result<ExprPtr> ExpressionParser::parse_chain(int level) {
  const auto parse_operand = [&]() -> Result<ExprPtr> {
    if (level == kAndLevel) return parse_not();
    return level == kPowerLevel ? parse_unary(true) : parse_chain(level + 1);
  };
  Expr chain{Kind::chain, current().line};
  QUIRE_TRY(ExprPtr first, parse_operand());
  if (!chain_operator(level, current())) return first;
  chain.parts.push_back(std::move(first));
  while (const auto op = chain_operator(level, current())) {
    advance();
    QUIRE_TRY(ExprPtr operand, parse_operand());
    chain.operators.push_back(*op);
    chain.parts.push_back(std::move(operand));
  }
  return finish(std::move(chain));
}

Result<ExprPtr> ExpressionParser::parse_not() {
  if (!current().is_name("not")) return parse_compare();
  const Nested nested(*this);
  QUIRE_CHECK_OK(check_depth());
  Expr e{Kind::logical_not, current().line};
  advance();
  QUIRE_TRY(ExprPtr operand, parse_not());
  e.parts.push_back(std::move(operand));
  return finish(std::move(e));
}

Result<ExprPtr> ExpressionParser::parse_compare() {
  Expr e{Kind::compare, current().line};
  QUIRE_TRY(ExprPtr first, parse_chain(kSumLevel));
  e.parts.push_back(std::move(first));
  for (;;) {
    if (const auto op = comparison(current())) {
      e.operators.push_back(*op);
    } else if (current().is_name("not") && look_ahead().is_name("in")) {
      advance();
      e.operators.push_back(Operator::not_in);
    } else {
      break;
    }
    advance();
    QUIRE_TRY(ExprPtr operand, parse_chain(kSumLevel));
    e.parts.push_back(std::move(operand));
  }
  if (e.operators.empty()) return std::move(e.parts.front());
  return finish(std::move(e));
}

Result<ExprPtr> ExpressionParser::parse_unary(bool with_filter) {
  ExprPtr e;
  if (current().is_op("-") || current().is_op("+")) {
    const Nested nested(*this);
    QUIRE_CHECK_OK(check_depth());
    Expr sign{current().is_op("-") ? Kind::negate : Kind::plus, current().line};
    advance();
    QUIRE_TRY(ExprPtr operand, parse_unary(false));
    sign.parts.push_back(std::move(operand));
    QUIRE_TRY(e, finish(std::move(sign)));
  } else {
    QUIRE_TRY(e, parse_primary());
  }
  QUIRE_TRY(e, parse_postfix(std::move(e)));
  if (!with_filter) return e;
  return parse_filters(std::move(e));
}

Result<ExprPtr> ExpressionParser::parse_primary() {
  const Token& token = current();
  Expr e{Kind::constant, token.line};
  switch (token.kind) {
    case Token::Kind::name:
      if (token.text == "true" || token.text == "True") {
        e.value = boolean(true);
      } else if (token.text == "false" || token.text == "False") {
        e.value = boolean(false);
      } else if (token.text == "none" || token.text == "None") {
        e.value = none();
      } else {
        e.kind = Kind::name;
        e.name = token.text;
      }
      break;
    case Token::Kind::string: {
      std::string joined = token.text;
      for (; look_ahead().kind == Token::Kind::string; advance()) joined += look_ahead().text;
      e.value = text(joined);
      break;
    }
    case Token::Kind::integer:
      e.value = integer(token.integer);
      break;
    case Token::Kind::real:
      e.value = real(token.real);
      break;
    default:
      if (token.is_op("[")) return parse_list();
      if (token.is_op("{")) return parse_dict();
      if (!accept_op("(")) return unexpected();
      QUIRE_TRY(ExprPtr inner, parse_tuple(true));
      QUIRE_CHECK_OK(expect_op(")"));
      return inner;
  }
  advance();
  return finish(std::move(e));
}

Result<ExprPtr> ExpressionParser::parse_tuple(bool in_parentheses) {
  const auto at_end = [&] {
    const Token& t = current();
    return t.kind == Token::Kind::variable_end || t.kind == Token::Kind::block_end || t.is_op(")");
  };
  Expr tuple{Kind::tuple, current().line};
  bool comma = false;
  while (!at_end()) {
    QUIRE_TRY(ExprPtr item, parse_expression());
    tuple.parts.push_back(std::move(item));
    if (!accept_op(",")) break;
    comma = true;
  }
  if (!comma && !tuple.parts.empty()) return std::move(tuple.parts.front());
  if (!comma && !in_parentheses) return unexpected();
  return finish(std::move(tuple));
}

Result<ExprPtr> ExpressionParser::parse_list() {
  Expr list{Kind::list, current().line};
  advance();
  while (!current().is_op("]")) {
    QUIRE_TRY(ExprPtr item, parse_expression());
    list.parts.push_back(std::move(item));
    if (!accept_op(",")) break;
  }
  QUIRE_CHECK_OK(expect_op("]"));
  return finish(std::move(list));
}

Result<ExprPtr> ExpressionParser::parse_dict() {
  Expr dict{Kind::dict, current().line};
  advance();
  while (!current().is_op("}")) {
    QUIRE_TRY(ExprPtr key, parse_expression());
    QUIRE_CHECK_OK(expect_op(":"));
    QUIRE_TRY(ExprPtr value, parse_expression());
    dict.parts.push_back(std::move(key));
    dict.parts.push_back(std::move(value));
    if (!accept_op(",")) break;
  }
  QUIRE_CHECK_OK(expect_op("}"));
  return finish(std::move(dict));
}

}  // namespace quire::jinja
