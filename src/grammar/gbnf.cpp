// Grammars as llama.cpp writes them: name ::= alternatives of literals, classes, rules and groups,
// each possibly repeated by * + ? {m} {m,} {m,n}.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/fail.h"
#include "grammar/builder.h"
#include "grammar/source_reader.h"

namespace quire {
namespace {

using grammar::CodePointSet;
using grammar::GrammarBuilder;
using Expr = GrammarBuilder::Expr;
using Rule = GrammarBuilder::Rule;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  explicit GbnfParser(std::string_view source) : reader_(source) {}

  Result<Grammar> run() {
    skip_space(Newlines::skip);
    while (!reader_.done()) QUIRE_CHECK_OK(parse_rule());
    for (const auto& [name, rule] : rules_) {
      if (!builder_.is_defined(rule.id)) {
        return fail(Errc::invalid_argument, "grammar line {}: rule '{}' is not defined", reader_.line_of(rule.position),
                    name);
      }
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) return fail(Errc::invalid_argument, "the grammar has no rule 'root' to begin with");
    return builder_.build(root->second.id);
  }

 private:
  struct Named {
    Rule id;
    std::size_t position;  // of its first mention
  };
  enum class Newlines { keep, skip };

  template <class... Args>
  Error error(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(Errc::invalid_argument, "grammar line {}: {}", reader_.line_of(reader_.position()),
                fmt::format(format, std::forward<Args>(args)...));
  }

  void skip_space(Newlines newlines) {
    for (;;) {
      reader_.take_while(
          [&](char c) { return c == ' ' || c == '\t' || (newlines == Newlines::skip && (c == '\n' || c == '\r')); });
      if (reader_.peek() != '#') return;
      reader_.take_while([](char c) { return c != '\n' && c != '\r'; });
    }
  }

  Rule rule_named(std::string_view name) {
    const auto known = rules_.find(name);
    if (known != rules_.end()) return known->second.id;
    const Rule rule = builder_.declare(std::string(name));
    rules_.emplace(name, Named{rule, reader_.position()});
    return rule;
  }

  Result<void> parse_rule() {
    const std::string_view name = reader_.take_while(is_name_char);
    if (name.empty()) return error("a rule's name was expected, of letters, digits, - and _");
    const Rule rule = rule_named(name);
    if (builder_.is_defined(rule)) return error("rule '{}' is defined twice", name);
    skip_space(Newlines::keep);
    if (!reader_.take("::=")) return error("'::=' was expected after '{}'", name);
    skip_space(Newlines::skip);
    QUIRE_TRY(const Expr body, parse_choice(Newlines::keep, 0));
    builder_.define(rule, body);
    if (!reader_.done() && reader_.peek() != '\n' && reader_.peek() != '\r') {
      return error("'{}' was not expected", reader_.peek());
    }
    skip_space(Newlines::skip);
    return {};
  }

  Result<Expr> parse_choice(Newlines newlines, int depth) {
    if (depth > grammar::kDeepestNesting) return error("more than {} groups in each other", grammar::kDeepestNesting);
    std::vector<Expr> options;
    do {
      skip_space(Newlines::skip);
      QUIRE_TRY(const Expr option, parse_sequence(newlines, depth));
      options.push_back(option);
    } while (reader_.take("|"));
    return builder_.choice(std::move(options));
  }

  Result<Expr> parse_sequence(Newlines newlines, int depth) {
    std::vector<Expr> parts;
    for (;;) {
      skip_space(newlines);
      const char c = reader_.peek();
      if (reader_.done() || !(c == '"' || c == '[' || c == '(' || c == '.' || is_name_char(c))) break;
      QUIRE_TRY(const Expr part, parse_item(depth));
      QUIRE_TRY(const Expr repeated, parse_repeats(part));
      parts.push_back(repeated);
    }
    return builder_.sequence(std::move(parts));
  }

  Result<Expr> parse_item(int depth) {
    if (reader_.take("\"")) return parse_literal();
    if (reader_.take("[")) return parse_class();
    if (reader_.take(".")) return builder_.chars(CodePointSet().complement());
    if (reader_.take("(")) {
      QUIRE_TRY(const Expr group, parse_choice(Newlines::skip, depth + 1));
      if (!reader_.take(")")) return error("')' was expected");
      return group;
    }
    return builder_.call(rule_named(reader_.take_while(is_name_char)));
  }

  Result<Expr> parse_repeats(Expr part) {
    for (int count = 0;; ++count) {
      if (count > grammar::kDeepestNesting) return error("more than {} repetitions of one thing", count);
      if (reader_.take("*")) {
        part = builder_.repeat(part, 0, GrammarBuilder::kUnbounded);
      } else if (reader_.take("+")) {
        part = builder_.repeat(part, 1, GrammarBuilder::kUnbounded);
      } else if (reader_.take("?")) {
        part = builder_.optional(part);
      } else if (reader_.take("{")) {
        const auto counts = grammar::take_repeat_counts(reader_, GrammarBuilder::kUnbounded);
        if (!counts) return error("{{m}}, {{m,}} or {{m,n}} was expected");
        part = builder_.repeat(part, counts->least, counts->most);
      } else {
        return part;
      }
    }
  }

  Result<char32_t> parse_char() {
    if (!reader_.take("\\")) return reader_.next();
    std::optional<char32_t> c;
    switch (const char kind = reader_.peek(); kind) {
      case 'x':
      case 'u':
      case 'U':
        reader_.next();
        c = reader_.take_hex(kind == 'x' ? 2 : kind == 'u' ? 4 : 8);
        if (!c) return error("\\{} needs hexadecimal digits that make a character", kind);
        return *c;
      case 'n':
        reader_.next();
        return U'\n';
      case 'r':
        reader_.next();
        return U'\r';
      case 't':
        reader_.next();
        return U'\t';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '^':
      case '-':
        return reader_.next();
      default:
        return error("'\\{}' is not an escape", kind);
    }
  }

  Result<Expr> parse_literal() {
    std::string text;
    while (!reader_.take("\"")) {
      if (reader_.done()) return error("a literal has no closing '\"'");
      QUIRE_TRY(const char32_t c, parse_char());
      text += grammar::encode_char(c);
    }
    return builder_.literal(text);
  }

  Result<Expr> parse_class() {
    CodePointSet set;
    const bool negated = reader_.take("^");
    while (!reader_.take("]")) {
      if (reader_.done()) return error("a class has no closing ']'");
      QUIRE_TRY(const char32_t first, parse_char());
      char32_t last = first;
      if (reader_.looking_at("-") && !reader_.looking_at("-]")) {
        reader_.take("-");
        if (reader_.done()) return error("a class has no closing ']'");
        QUIRE_TRY(last, parse_char());
      }
      if (last < first) return error("a range in a class ends before it begins");
      set.add(first, last);
    }
    return builder_.chars(negated ? set.complement() : set);
  }

  grammar::SourceReader reader_;
  GrammarBuilder builder_;
  std::map<std::string, Named, std::less<>> rules_;
};

}  // namespace

Result<Grammar> parse_gbnf(std::string_view source) {
  QUIRE_CHECK_OK(grammar::check_source(source, "grammar"));
  return GbnfParser(source).run();
}

}  // namespace quire
