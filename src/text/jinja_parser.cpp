#include "text/jinja_parser.h"

#include <algorithm>
#include <initializer_list>

#include "core/fail.h"
#include "text/jinja_expression_parser.h"

namespace quire::jinja {
namespace {

class Parser : ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Result<Block> parse() {
    QUIRE_TRY(Block block, parse_block({}));
    if (current().kind != Token::Kind::end) return unexpected();
    return block;
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  // Statements up to a tag of one of these names, which becomes the current token; with no names,
  // up to the end of the template.
  Result<Block> parse_block(Names ends) {
    const Nested nested(*this);
    QUIRE_CHECK_OK(check_depth());
    const int first_line = tag_line_;
    Block block;
    for (;;) {
      const Token& token = current();
      if (token.kind == Token::Kind::end) {
        if (ends.size() == 0) return block;
        return syntax_error(first_line, fmt::format("the template ends before '{}'", *(ends.end() - 1)));
      }
      advance();
      if (token.kind == Token::Kind::data) {
        block.push_back({Stmt::Kind::text, token.line, token.text});
      } else if (token.kind == Token::Kind::variable_begin) {
        Stmt output{Stmt::Kind::output, token.line};
        QUIRE_TRY(ExprPtr e, parse_tuple(false));
        output.exprs.push_back(std::move(e));
        if (current().kind != Token::Kind::variable_end) return unexpected();
        advance();
        block.push_back(std::move(output));
      } else {
        if (std::find(ends.begin(), ends.end(), current().text) != ends.end()) return block;
        QUIRE_TRY(Stmt statement, parse_statement());
        QUIRE_CHECK_OK(expect_block_end());
        block.push_back(std::move(statement));
      }
    }
  }

  // The body of a tag that is closed by one other.
  Result<Block> parse_body(std::string_view end) {
    QUIRE_CHECK_OK(expect_block_end());
    QUIRE_TRY(Block block, parse_block({end}));
    advance();
    return block;
  }

  Result<void> expect_block_end() {
    if (current().kind != Token::Kind::block_end) return unexpected();
    tag_line_ = current().line;
    advance();
    return {};
  }

  Result<Stmt> parse_statement() {
    const int line = current().line;
    QUIRE_TRY(const std::string tag, expect_identifier());
    if (tag == "if") return parse_if(line);
    if (tag == "for") return parse_for(line);
    if (tag == "set") return parse_set(line);
    if (tag == "macro") return parse_macro(line);
    if (tag == "with") return parse_with(line);
    if (tag == "filter") return parse_filter_block(line);
    if (tag == "generation") {
      Stmt statement{Stmt::Kind::pass_through, line};
      QUIRE_TRY(Block body, parse_body("endgeneration"));
      statement.blocks.push_back(std::move(body));
      return statement;
    }
    if (tag == "break" || tag == "continue") {
      if (!in_loop_) return syntax_error(line, fmt::format("'{}' outside a loop", tag));
      return Stmt{tag == "break" ? Stmt::Kind::break_loop : Stmt::Kind::continue_loop, line};
    }
    if (tag == "print") {
      Stmt statement{Stmt::Kind::output, line};
      while (current().kind != Token::Kind::block_end) {
        QUIRE_TRY(ExprPtr e, parse_expression());
        statement.exprs.push_back(std::move(e));
        if (!accept_op(",")) break;
      }
      return statement;
    }
    Error error = syntax_error(line, fmt::format("the tag '{}' is not supported", tag));
    error.code = Errc::unsupported;
    return error;
  }

  Result<Stmt> parse_if(int line) {
    Stmt statement{Stmt::Kind::if_else, line};
    for (;;) {
      QUIRE_TRY(ExprPtr condition, parse_tuple(false));
      statement.exprs.push_back(std::move(condition));
      QUIRE_CHECK_OK(expect_block_end());
      QUIRE_TRY(Block body, parse_block({"elif", "else", "endif"}));
      statement.blocks.push_back(std::move(body));
      if (!accept_name("elif")) break;
    }
    if (accept_name("else")) {
      QUIRE_TRY(Block otherwise, parse_body("endif"));
      statement.blocks.push_back(std::move(otherwise));
    } else {
      advance();
    }
    return statement;
  }

  Result<Stmt> parse_for(int line) {
    Stmt statement{Stmt::Kind::for_loop, line};
    QUIRE_TRY(Target target, parse_target(false));
    statement.targets.push_back(std::move(target));
    if (!accept_name("in")) return unexpected();
    QUIRE_TRY(ExprPtr items, parse_iterable());
    statement.exprs.push_back(std::move(items));
    ExprPtr condition;
    if (accept_name("if")) {
      QUIRE_TRY(condition, parse_expression());
    }
    statement.exprs.push_back(std::move(condition));
    if (current().is_name("recursive")) return syntax_error(line, "recursive loops are not supported");
    QUIRE_CHECK_OK(expect_block_end());
    const bool outer = std::exchange(in_loop_, true);
    QUIRE_TRY(Block body, parse_block({"else", "endfor"}));
    in_loop_ = outer;
    statement.blocks.push_back(std::move(body));
    Block otherwise;
    if (accept_name("else")) {
      QUIRE_TRY(otherwise, parse_body("endfor"));
    } else {
      advance();
    }
    statement.blocks.push_back(std::move(otherwise));
    return statement;
  }

  // What a loop runs over: its `if` is the loop's filter, not a conditional expression.
  Result<ExprPtr> parse_iterable() {
    const int line = current().line;
    QUIRE_TRY(ExprPtr first, parse_or());
    if (!current().is_op(",")) return first;
    auto tuple = std::make_unique<Expr>(Expr{Expr::Kind::tuple, line});
    tuple->height = first->height + 1;
    tuple->parts.push_back(std::move(first));
    while (accept_op(",")) {
      if (current().kind == Token::Kind::block_end) break;
      QUIRE_TRY(ExprPtr item, parse_or());
      tuple->height = std::max(tuple->height, item->height + 1);
      tuple->parts.push_back(std::move(item));
    }
    return ExprPtr(std::move(tuple));
  }

  Result<Stmt> parse_set(int line) {
    Stmt statement{Stmt::Kind::set, line};
    QUIRE_TRY(Target target, parse_target(true));
    statement.targets.push_back(std::move(target));
    if (accept_op("=")) {
      QUIRE_TRY(ExprPtr value, parse_tuple(false));
      statement.exprs.push_back(std::move(value));
      return statement;
    }
    statement.kind = Stmt::Kind::set_block;
    ExprPtr filter;
    if (current().is_op("|")) {
      QUIRE_TRY(filter, parse_filters(nullptr));
    }
    statement.exprs.push_back(std::move(filter));
    QUIRE_TRY(Block body, parse_outside_loop("endset"));
    statement.blocks.push_back(std::move(body));
    return statement;
  }

  Result<Stmt> parse_filter_block(int line) {
    Stmt statement{Stmt::Kind::filter_block, line};
    QUIRE_TRY(ExprPtr filter, parse_filter_name(nullptr));
    QUIRE_TRY(filter, parse_filters(std::move(filter)));
    statement.exprs.push_back(std::move(filter));
    QUIRE_TRY(Block body, parse_outside_loop("endfilter"));
    statement.blocks.push_back(std::move(body));
    return statement;
  }

  Result<Stmt> parse_with(int line) {
    Stmt statement{Stmt::Kind::with, line};
    while (current().kind != Token::Kind::block_end) {
      QUIRE_TRY(Target target, parse_target_item(false));
      QUIRE_CHECK_OK(expect_op("="));
      QUIRE_TRY(ExprPtr value, parse_expression());
      statement.targets.push_back(std::move(target));
      statement.exprs.push_back(std::move(value));
      if (!accept_op(",")) break;
    }
    QUIRE_TRY(Block body, parse_body("endwith"));
    statement.blocks.push_back(std::move(body));
    return statement;
  }

  Result<Stmt> parse_macro(int line) {
    // A macro sees the variables of the template. One inside a loop or a macro would also see
    // theirs, for as long as it lives; no chat template needs that.
    if (in_loop_ || in_macro_) return syntax_error(line, "a macro inside a loop or a macro is not supported");
    Stmt statement{Stmt::Kind::macro, line};
    QUIRE_TRY(statement.text, expect_identifier());
    auto macro = std::make_unique<MacroBody>();
    QUIRE_CHECK_OK(expect_op("("));
    while (!current().is_op(")")) {
      QUIRE_TRY(std::string parameter, expect_identifier());
      macro->parameters.push_back(std::move(parameter));
      if (accept_op("=")) {
        QUIRE_TRY(ExprPtr value, parse_expression());
        macro->defaults.push_back(std::move(value));
      } else if (!macro->defaults.empty()) {
        return syntax_error(line, "a parameter without a default follows one with a default");
      }
      if (!accept_op(",")) break;
    }
    QUIRE_CHECK_OK(expect_op(")"));
    in_macro_ = true;
    QUIRE_TRY(Block body, parse_outside_loop("endmacro"));
    in_macro_ = false;
    macro->body = std::make_unique<const Block>(std::move(body));
    statement.macro = std::move(macro);
    return statement;
  }

  // The body of a tag that break and continue cannot leave.
  Result<Block> parse_outside_loop(std::string_view end) {
    const bool outer = std::exchange(in_loop_, false);
    QUIRE_TRY(Block body, parse_body(end));
    in_loop_ = outer;
    return body;
  }

  Result<Target> parse_target(bool with_attribute) {
    QUIRE_TRY(Target first, parse_target_item(with_attribute));
    if (!current().is_op(",")) return first;
    Target tuple;
    tuple.is_tuple = true;
    tuple.items.push_back(std::move(first));
    while (accept_op(",")) {
      if (current().kind != Token::Kind::name && !current().is_op("(")) break;
      if (current().is_name("in")) break;
      QUIRE_TRY(Target item, parse_target_item(with_attribute));
      tuple.items.push_back(std::move(item));
    }
    return tuple;
  }

  Result<Target> parse_target_item(bool with_attribute) {
    const Nested nested(*this);
    QUIRE_CHECK_OK(check_depth());
    if (accept_op("(")) {
      QUIRE_TRY(Target inner, parse_target(with_attribute));
      QUIRE_CHECK_OK(expect_op(")"));
      return inner;
    }
    Target target;
    QUIRE_TRY(target.name, expect_identifier());
    static constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None"};
    if (std::find(std::begin(kConstants), std::end(kConstants), target.name) != std::end(kConstants)) {
      return syntax_error(current().line, fmt::format("cannot assign to '{}'", target.name));
    }
    if (with_attribute && accept_op(".")) {
      QUIRE_TRY(target.attribute, expect_identifier());
    }
    return target;
  }

  int tag_line_ = 1;  // of the tag that ended last
  bool in_loop_ = false;
  bool in_macro_ = false;
};

}  // namespace

Result<Block> parse_template(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    return fail(Errc::bad_file, "the template is {} bytes long, more than {}", source.size(), kMaxTemplateBytes);
  }
  QUIRE_TRY(auto tokens, tokenize(source));
  return Parser(std::move(tokens)).parse();
}

}  // namespace quire::jinja
