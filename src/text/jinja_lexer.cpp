#include "text/jinja_lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "core/fail.h"
#include "text/jinja_text.h"

namespace quire::jinja {
namespace {

using Kind = Token::Kind;

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
bool is_zero(char c) { return c == '0'; }
bool is_word(char32_t c) { return c == '_' || is_digit(c) || is_alpha(c); }

// Line ends become \n, and one at the very end goes.
std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
      continue;
    }
    out.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) QUIRE_CHECK_OK(lex_root());
    push(Kind::end);
    return std::move(tokens_);
  }

 private:
  bool looking_at(std::string_view s) const { return source_.substr(at_).starts_with(s); }
  void push(Kind kind, std::string_view text = {}) { tokens_.push_back({kind, line_, std::string(text)}); }

  void advance(std::size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at_ = end;
  }
  void skip_space() { advance(source_.size() - strip_left(source_.substr(at_)).size()); }

  // Past the end of a tag, and past what white space control takes with it.
  void end_tag(std::size_t after, char sign, bool trims_newline) {
    advance(after);
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && trims_newline && looking_at("\n")) {
      advance(at_ + 1);
    }
    line_starting_ = source_[at_ - 1] == '\n';
  }

  std::size_t find_tag() const {
    for (std::size_t i = at_; (i = source_.find('{', i)) != source_.npos; ++i) {
      if (i + 1 < source_.size() && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) return i;
    }
    return source_.npos;
  }

  char sign_at(std::size_t i) const {
    return i < source_.size() && (source_[i] == '-' || source_[i] == '+') ? source_[i] : ' ';
  }

  // Text up to a tag at `end`, less what the tag's sign or lstrip_blocks takes off its right.
  void push_data(std::size_t end, char sign, bool strips_line) {
    std::string_view data = source_.substr(at_, end - at_);
    if (sign == '-') {
      data = strip_right(data);
    } else if (sign != '+' && strips_line) {
      const std::size_t line_start = data.rfind('\n') + 1;  // npos + 1 is 0
      if ((line_start > 0 || line_starting_) && strip_right(data.substr(line_start)).empty()) {
        data = data.substr(0, line_start);
      }
    }
    if (!data.empty()) push(Kind::data, data);
    advance(end);
  }

  Result<void> lex_root() {
    const std::size_t tag = find_tag();
    if (tag == source_.npos) {
      push(Kind::data, source_.substr(at_));
      advance(source_.size());
      return {};
    }
    const char type = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    push_data(tag, sign, type != '{');
    const std::size_t inside = tag + (sign == ' ' ? 2 : 3);
    if (type == '#') return lex_comment(inside);
    if (type == '%') {
      if (const auto raw = match_word_tag(tag, "raw"); raw && raw->sign != '+') return lex_raw(*raw);
    }
    push(type == '{' ? Kind::variable_begin : Kind::block_begin);
    advance(inside);
    return lex_tag(type == '{');
  }

  Result<void> lex_comment(std::size_t inside) {
    const std::size_t close = source_.find("#}", inside);
    if (close == source_.npos) return syntax_error(line_, "a comment is not closed");
    end_tag(close + 2, close > inside ? source_[close - 1] : ' ', true);
    return {};
  }

  struct WordTag {
    std::size_t after;
    char sign;  // of the closing end
  };

  // {% word %} at `tag`, with nothing else in it.
  std::optional<WordTag> match_word_tag(std::size_t tag, std::string_view word) const {
    std::string_view rest = source_.substr(tag + (sign_at(tag + 2) == ' ' ? 2 : 3));
    rest = strip_left(rest);
    if (!rest.starts_with(word)) return std::nullopt;
    rest = strip_left(rest.substr(word.size()));
    const char sign = rest.starts_with("-") || rest.starts_with("+") ? rest[0] : ' ';
    if (sign != ' ') rest.remove_prefix(1);
    if (!rest.starts_with("%}")) return std::nullopt;
    return WordTag{source_.size() - rest.size() + 2, sign};
  }

  Result<void> lex_raw(const WordTag& begin) {
    const int line = line_;
    end_tag(begin.after, begin.sign, false);
    for (std::size_t tag = at_; (tag = source_.find("{%", tag)) != source_.npos; tag += 2) {
      const auto end = match_word_tag(tag, "endraw");
      if (!end) continue;
      push_data(tag, sign_at(tag + 2), true);
      end_tag(end->after, end->sign, true);
      return {};
    }
    return syntax_error(line, "a raw block is not closed");
  }

  Result<void> lex_tag(bool variable) {
    const std::string_view close = variable ? "}}" : "%}";
    std::vector<char> open;  // brackets: a tag does not end inside them
    for (;;) {
      skip_space();
      if (at_ >= source_.size()) return syntax_error(line_, "a tag is not closed");
      if (open.empty()) {
        const char sign = variable && sign_at(at_) == '+' ? ' ' : sign_at(at_);
        const std::size_t end = at_ + (sign == ' ' ? 0 : 1);
        if (source_.substr(end).starts_with(close)) {
          push(variable ? Kind::variable_end : Kind::block_end);
          end_tag(end + 2, sign, !variable);
          return {};
        }
      }
      QUIRE_CHECK_OK(lex_token(open));
    }
  }

  Result<void> lex_token(std::vector<char>& open) {
    const char c = source_[at_];
    if (is_ascii_digit(c)) return lex_number();
    if (c == '\'' || c == '"') return lex_string();
    std::size_t end = at_;
    for (std::size_t i = at_; i < source_.size() && is_word(next_code_point(source_, i));) end = i;
    if (end > at_) {
      push(Kind::name, source_.substr(at_, end - at_));
      advance(end);
      return {};
    }
    return lex_operator(open);
  }

  Result<void> lex_operator(std::vector<char>& open) {
    static constexpr std::array<std::string_view, 26> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                                    "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                                    ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    const auto found = std::find_if(kOperators.begin(), kOperators.end(), [&](auto s) { return looking_at(s); });
    if (found == kOperators.end()) {
      std::size_t end = at_;
      next_code_point(source_, end);
      return syntax_error(line_, fmt::format("unexpected character '{}'", source_.substr(at_, end - at_)));
    }
    const char c = found->front();
    if (c == '(') open.push_back(')');
    if (c == '[') open.push_back(']');
    if (c == '{') open.push_back('}');
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) return syntax_error(line_, fmt::format("unexpected '{}'", c));
      open.pop_back();
    }
    push(Kind::op, *found);
    advance(at_ + found->size());
    return {};
  }

  // Digits with single underscores between them; `at` itself if there are none.
  std::size_t skip_digits(std::size_t at, bool (*is_digit_of_base)(char)) const {
    const auto digit = [&](std::size_t i) { return i < source_.size() && is_digit_of_base(source_[i]); };
    if (!digit(at)) return at;
    while (digit(at) || (at < source_.size() && source_[at] == '_' && digit(at + 1))) ++at;
    return at;
  }

  std::size_t float_end() const {
    if (at_ > 0 && source_[at_ - 1] == '.') return at_;
    const auto at = [&](std::size_t i) { return i < source_.size() ? source_[i] : '\0'; };
    std::size_t end = skip_digits(at_, is_ascii_digit);
    bool is_float = false;
    if (at(end) == '.' && is_ascii_digit(at(end + 1))) {
      end = skip_digits(end + 1, is_ascii_digit);
      is_float = true;
    }
    if (at(end) == 'e' || at(end) == 'E') {
      const std::size_t digits = end + (at(end + 1) == '+' || at(end + 1) == '-' ? 2 : 1);
      if (is_ascii_digit(at(digits))) return skip_digits(digits, is_ascii_digit);
    }
    return is_float ? end : at_;
  }

  Result<void> lex_number() {
    const std::size_t real_end = float_end();
    std::size_t end = real_end;
    int base = 10;
    if (end == at_) {
      const char marker =
          at_ + 1 < source_.size() && source_[at_] == '0' ? static_cast<char>(source_[at_ + 1] | 0x20) : ' ';
      base = marker == 'x' ? 16 : marker == 'o' ? 8 : marker == 'b' ? 2 : 10;
      if (base == 16) end = skip_digits(at_ + 2, is_hex);
      if (base == 8) end = skip_digits(at_ + 2, [](char c) { return c >= '0' && c <= '7'; });
      if (base == 2) end = skip_digits(at_ + 2, [](char c) { return c == '0' || c == '1'; });
      if (base != 10 && end == at_ + 2) base = 10;
      if (base == 10) {
        end = skip_digits(at_, source_[at_] == '0' ? is_zero : is_ascii_digit);
      }
    }
    std::string digits(source_.substr(at_, end - at_));
    std::erase(digits, '_');
    push(end == real_end ? Kind::real : Kind::integer, digits);
    Token& token = tokens_.back();
    if (token.kind == Kind::real) {
      token.real = std::strtod(digits.c_str(), nullptr);
    } else {
      const char* first = digits.data() + (base == 10 ? 0 : 2);
      const auto [stop, error] = std::from_chars(first, digits.data() + digits.size(), token.integer, base);
      if (error != std::errc()) return syntax_error(line_, "an integer is too large");
    }
    advance(end);
    return {};
  }

  Result<void> lex_string() {
    const char quote = source_[at_];
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return syntax_error(line_, "a string is not closed");
    QUIRE_TRY(std::string value, unescape(source_.substr(at_ + 1, end - at_ - 1)));
    push(Kind::string, value);
    advance(end + 1);
    return {};
  }

  Result<std::string> unescape(std::string_view s) const {
    std::string out;
    for (std::size_t i = 0; i < s.size(); ++i) {
      if (s[i] != '\\') {
        out.push_back(s[i]);
        continue;
      }
      const char c = s[++i];  // lex_string saw to it that a backslash is never last
      static constexpr std::string_view kCodes = "abfnrtv\\'\"", kMeanings = "\a\b\f\n\r\t\v\\'\"";
      if (const std::size_t simple = kCodes.find(c); simple != kCodes.npos) {
        out.push_back(kMeanings[simple]);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const std::size_t length = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        const std::string_view digits = s.substr(i + 1, length);
        std::uint32_t code = 0;
        const bool hex = digits.size() == length && std::all_of(digits.begin(), digits.end(), is_hex);
        if (hex) std::from_chars(digits.data(), digits.data() + length, code, 16);
        if (!hex || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
          return syntax_error(line_, "a string holds an escape that is no character");
        }
        append_code_point(out, code);
        i += length;
      } else if (c >= '0' && c <= '7') {
        char32_t code = 0;
        std::size_t end = i;
        for (; end < s.size() && end < i + 3 && s[end] >= '0' && s[end] <= '7'; ++end) {
          code = code * 8 + static_cast<char32_t>(s[end] - '0');
        }
        append_code_point(out, code);
        i = end - 1;
      } else if (c == 'N') {
        return syntax_error(line_, "named characters (\\N) are not supported");
      } else if (c != '\n') {
        out.push_back('\\');
        out.push_back(c);
      }
    }
    return out;
  }

  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

Error syntax_error(int line, std::string_view what) { return fail(Errc::bad_file, "line {}: {}", line, what); }

Result<std::vector<Token>> tokenize(std::string_view source) {
  const std::string normalized = normalize_newlines(source);
  return Lexer(normalized).run();
}

}  // namespace quire::jinja
