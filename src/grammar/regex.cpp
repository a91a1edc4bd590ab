#include "grammar/regex.h"

#include <optional>
#include <utility>
#include <vector>

#include "core/fail.h"
#include "grammar/source_reader.h"

namespace quire {
namespace grammar {
namespace {

using Expr = GrammarBuilder::Expr;

const CodePointSet& digits() {
  static const CodePointSet set{{'0', '9'}};
  return set;
}

const CodePointSet& word_chars() {
  static const CodePointSet set{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return set;
}

// Validators disagree about white space outside ASCII: neither \s nor \S is any of it.
const CodePointSet& ascii_space() {
  static const CodePointSet set{{'\t', '\r'}, {' ', ' '}};
  return set;
}

const CodePointSet& unicode_space() {
  static const CodePointSet set{{'\t', '\r'},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return set;
}

const CodePointSet& line_ends() {
  static const CodePointSet set{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return set;
}

bool is_alphanumeric(char c) { return word_chars().contains(static_cast<unsigned char>(c)) && c != '_'; }

class RegexParser {
 public:
  RegexParser(GrammarBuilder& builder, std::string_view pattern, const RegexContext& context)
      : builder_(builder), reader_(pattern), context_(context) {}

  Result<Expr> run() {
    std::vector<Expr> options;
    do {
      const bool from_start = reader_.take("^");
      QUIRE_TRY(const Expr option, parse_sequence(0));
      const bool to_end = reader_.take("$");
      std::vector<Expr> parts;
      if (!from_start) parts.push_back(context_.around);
      parts.push_back(option);
      if (!to_end) parts.push_back(context_.around);
      options.push_back(builder_.sequence(std::move(parts)));
    } while (reader_.take("|"));
    if (reader_.peek() == ')') return error("')' closes nothing");
    if (!reader_.done()) return error("'{}' is supported only at the ends of the pattern", reader_.peek());
    return builder_.choice(std::move(options));
  }

 private:
  template <class... Args>
  Error error(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(Errc::invalid_argument, "regular expression, at {}: {}", reader_.position(),
                fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  Error unsupported(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(Errc::unsupported, "regular expression, at {}: {} not supported", reader_.position(),
                fmt::format(format, std::forward<Args>(args)...));
  }

  Result<Expr> parse_choice(int depth) {
    if (depth > kDeepestNesting) return error("more than {} groups in each other", kDeepestNesting);
    std::vector<Expr> options;
    do {
      QUIRE_TRY(const Expr option, parse_sequence(depth));
      options.push_back(option);
    } while (reader_.take("|"));
    return builder_.choice(std::move(options));
  }

  Result<Expr> parse_sequence(int depth) {
    std::vector<Expr> parts;
    while (!reader_.done()) {
      const char c = reader_.peek();
      if (c == '|' || c == ')' || c == '^' || c == '$') break;
      QUIRE_TRY(const Expr atom, parse_atom(depth));
      QUIRE_TRY(const Expr repeated, parse_repeat(atom));
      parts.push_back(repeated);
    }
    return builder_.sequence(std::move(parts));
  }

  Result<Expr> parse_atom(int depth) {
    if (reader_.take("(")) return parse_group(depth);
    if (reader_.take("[")) {
      QUIRE_TRY(const CodePointSet set, parse_class());
      return context_.spell(set);
    }
    if (reader_.take(".")) return context_.spell(line_ends().complement());
    if (reader_.looking_at("\\")) {
      QUIRE_TRY(const CodePointSet set, parse_escape(false));
      return context_.spell(set);
    }
    const char c = reader_.peek();
    if (c == '*' || c == '+' || c == '?' || c == '{') return error("'{}' has nothing before it to repeat", c);
    const char32_t literal = reader_.next();
    return context_.spell({{literal, literal}});
  }

  Result<Expr> parse_group(int depth) {
    if (reader_.take("?")) {
      const bool named =
          reader_.take("P<") || (!reader_.looking_at("<=") && !reader_.looking_at("<!") && reader_.take("<"));
      if (named) {
        reader_.take_while([](char c) { return is_alphanumeric(c) || c == '_'; });
        if (!reader_.take(">")) return error("a group's name has no closing '>'");
      } else if (!reader_.take(":")) {
        return unsupported("(?{} is", reader_.peek());
      }
    }
    QUIRE_TRY(const Expr group, parse_choice(depth + 1));
    if (reader_.peek() == '^' || reader_.peek() == '$') return unsupported("'{}' within a group is", reader_.peek());
    if (!reader_.take(")")) return error("a group has no closing ')'");
    return group;
  }

  Result<Expr> parse_repeat(Expr atom) {
    RepeatCounts counts{};
    if (reader_.take("*")) {
      counts = {0, GrammarBuilder::kUnbounded};
    } else if (reader_.take("+")) {
      counts = {1, GrammarBuilder::kUnbounded};
    } else if (reader_.take("?")) {
      counts = {0, 1};
    } else if (reader_.take("{")) {
      const auto read = take_repeat_counts(reader_, GrammarBuilder::kUnbounded);
      if (!read) return error("{{m}}, {{m,}} or {{m,n}} was expected; a literal brace is \\{{");
      counts = *read;
    } else {
      return atom;
    }
    if (reader_.looking_at("+")) return unsupported("a repetition that gives nothing back ('+' behind it) is");
    reader_.take("?");  // how a search prefers to match does not change what matches
    return builder_.repeat(atom, counts.least, counts.most);
  }

  Result<CodePointSet> parse_class() {
    CodePointSet set;
    const bool negated = reader_.take("^");
    for (bool first = true; first || !reader_.looking_at("]"); first = false) {
      if (first && reader_.looking_at("]")) return unsupported("']' as the first of a class, where \\] is clear, is");
      if (reader_.done()) return error("a class has no closing ']'");
      if (reader_.looking_at("[:")) return unsupported("a class by name ([:...:]) is");
      QUIRE_TRY(const CodePointSet low, parse_class_item());
      if (!reader_.looking_at("-") || reader_.looking_at("-]")) {
        set.add(low);
        continue;
      }
      reader_.take("-");
      if (reader_.done()) return error("a class has no closing ']'");
      QUIRE_TRY(const CodePointSet high, parse_class_item());
      const auto single = [](const CodePointSet& s) {
        return s.ranges().size() == 1 && s.ranges()[0].first == s.ranges()[0].last;
      };
      if (!single(low) || !single(high) || high.ranges()[0].first < low.ranges()[0].first) {
        return error("a range in a class needs two characters, the lesser first");
      }
      set.add(low.ranges()[0].first, high.ranges()[0].first);
    }
    reader_.take("]");
    return negated ? set.complement() : set;
  }

  Result<CodePointSet> parse_class_item() {
    if (reader_.looking_at("\\")) return parse_escape(true);
    const char32_t c = reader_.next();
    return CodePointSet{{c, c}};
  }

  Result<CodePointSet> parse_escape(bool in_class) {
    reader_.take("\\");
    if (reader_.done()) return error("'\\' escapes nothing");
    const auto one = [](char32_t single) { return CodePointSet{{single, single}}; };
    const char32_t c = reader_.next();
    switch (c) {
      case 'd':
        return digits();
      case 'D':
        return digits().complement();
      case 'w':
        return word_chars();
      case 'W':
        return word_chars().complement();
      case 's':
        return ascii_space();
      case 'S':
        return unicode_space().complement();
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 't':
        return one('\t');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case '0':
        return one(0);
      case 'b':
        if (in_class) return one('\b');
        return unsupported("\\b is");
      case 'x':
      case 'u': {
        const auto coded = c == 'u' && reader_.take("{") ? take_braced_hex() : reader_.take_hex(c == 'x' ? 2 : 4);
        if (!coded) return error("\\x and \\u need hexadecimal digits that make a character");
        return one(*coded);
      }
      default:
        if (c < 0x80 && is_alphanumeric(static_cast<char>(c))) return unsupported("\\{} is", static_cast<char>(c));
        return one(c);
    }
  }

  std::optional<char32_t> take_braced_hex() {
    for (std::size_t count = 6; count > 0; --count) {
      SourceReader ahead = reader_;
      const auto c = ahead.take_hex(count);
      if (!c || !ahead.take("}")) continue;
      reader_ = ahead;
      return c;
    }
    return std::nullopt;
  }

  GrammarBuilder& builder_;
  SourceReader reader_;
  const RegexContext& context_;
};

}  // namespace

Result<Expr> regex_expression(GrammarBuilder& builder, std::string_view pattern, const RegexContext& context) {
  QUIRE_CHECK_OK(check_source(pattern, "regular expression"));
  return RegexParser(builder, pattern, context).run();
}

}  // namespace grammar

Result<Grammar> grammar_of_regex(std::string_view pattern) {
  grammar::GrammarBuilder builder;
  const grammar::RegexContext context{
      .spell = [&](const grammar::CodePointSet& set) { return builder.chars(set); },
      .around = builder.empty(),
  };
  QUIRE_TRY(const auto whole, grammar::regex_expression(builder, pattern, context));
  return builder.build(builder.add(whole));
}

}  // namespace quire
