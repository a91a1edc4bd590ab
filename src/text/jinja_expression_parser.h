// Expressions of the template language, from tokens to syntax tree.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "quire/result.h"
#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace quire::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  const Token& current() const { return tokens_[at_]; }
  const Token& look_ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  void advance() {
    if (at_ + 1 < tokens_.size()) ++at_;  // never past the end token
  }
  bool accept_op(std::string_view s);
  bool accept_name(std::string_view s);
  Result<void> expect_op(std::string_view s);
  Result<std::string> expect_identifier();
  Result<std::string> expect_dotted_name();
  Error unexpected() const;

  Result<ExprPtr> parse_expression();
  Result<ExprPtr> parse_or();
  // One expression, or several with commas between them. An empty tuple needs parentheses.
  Result<ExprPtr> parse_tuple(bool in_parentheses);
  Result<ExprPtr> parse_filters(ExprPtr subject);
  Result<ExprPtr> parse_filter_name(ExprPtr subject);

  // Nesting of the source itself, which bounds the recursion of the parser.
  class Nested {
   public:
    explicit Nested(ExpressionParser& parser) : parser_(parser) { ++parser_.depth_; }
    ~Nested() { --parser_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    ExpressionParser& parser_;
  };
  Result<void> check_depth() const;

 private:
  Result<ExprPtr> finish(Expr e) const;
  Result<ExprPtr> parse_chain(int level);
  Result<ExprPtr> parse_not();
  Result<ExprPtr> parse_compare();
  Result<ExprPtr> parse_unary(bool with_filter);
  Result<ExprPtr> parse_primary();
  Result<ExprPtr> parse_list();
  Result<ExprPtr> parse_dict();
  Result<ExprPtr> parse_postfix(ExprPtr e);
  Result<ExprPtr> parse_subscript(ExprPtr e);
  Result<ExprPtr> parse_test(ExprPtr subject);
  Result<ExprPtr> parse_call(ExprPtr callee);
  Result<void> parse_arguments(Expr& call);
  Result<void> parse_argument(Expr& call);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace quire::jinja
