#include "text/jinja_format.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/fail.h"
#include "text/jinja_operators.h"
#include "text/jinja_text.h"

namespace quire::jinja {
namespace {

constexpr int kMaxWidth = 1000;

// One %-directive: flags, width, precision and a letter.
struct Directive {
  bool left = false, zero = false, plus = false;
  int width = 0;
  int precision = -1;
  char letter = 0;
};

Result<int> parse_count(std::string_view s, std::size_t& i) {
  int n = 0;
  for (; i < s.size() && is_digit(static_cast<unsigned char>(s[i])); ++i) {
    n = n * 10 + (s[i] - '0');
    if (n > kMaxWidth) return fail(Errc::bad_file, "a format is wider than {}", kMaxWidth);
  }
  return n;
}

Result<Directive> parse_directive(std::string_view s, std::size_t& i) {
  Directive d;
  for (; i < s.size() && (s[i] == '-' || s[i] == '0' || s[i] == '+'); ++i) {
    d.left |= s[i] == '-';
    d.zero |= s[i] == '0';
    d.plus |= s[i] == '+';
  }
  QUIRE_TRY(d.width, parse_count(s, i));
  if (i < s.size() && s[i] == '.') {
    ++i;
    QUIRE_TRY(d.precision, parse_count(s, i));
  }
  if (i == s.size()) return fail(Errc::bad_file, "a format ends inside a directive");
  d.letter = s[i++];
  return d;
}

Result<std::string> format_one(const Directive& d, const Value& v, Budget& budget) {
  switch (d.letter) {
    case 's':
    case 'r': {
      TextBuilder out(budget);
      QUIRE_CHECK_OK(d.letter == 's' ? write_str(v, out) : write_repr(v, out));
      std::string s = out.take();
      if (d.precision >= 0) s = encode(decode(s).substr(0, static_cast<std::size_t>(d.precision)));
      return s;
    }
    case 'd':
    case 'i': {
      if (!v.number()) return fail(Errc::bad_file, "'%{}' needs a number, not {}", d.letter, type_name(v));
      if (v.integer()) return fmt::format("{}", *v.integer());
      if (!(std::fabs(*v.number()) < 0x1p63)) return fail(Errc::bad_file, "an integer is too large");
      return fmt::format("{}", static_cast<std::int64_t>(*v.number()));
    }
    case 'x':
      if (!v.integer()) return fail(Errc::bad_file, "'%x' needs an integer, not {}", type_name(v));
      return fmt::format("{:x}", *v.integer());
    case 'f':
      if (!v.number()) return fail(Errc::bad_file, "'%f' needs a number, not {}", type_name(v));
      return fmt::format("{:.{}f}", *v.number(), d.precision < 0 ? 6 : d.precision);
    default:
      return fail(Errc::unsupported, "the format '%{}' is not supported", d.letter);
  }
}

void append_padded(const Directive& d, std::string s, TextBuilder& out) {
  const bool numeric = d.letter != 's' && d.letter != 'r';
  if (numeric && d.plus && !s.starts_with('-')) s.insert(0, 1, '+');
  const std::size_t size = code_point_count(s);
  const auto width = static_cast<std::size_t>(d.width);
  const std::size_t padding = width > size ? width - size : 0;
  const bool zeros = numeric && d.zero && !d.left;
  const std::size_t sign = zeros && (s.starts_with('-') || s.starts_with('+')) ? 1 : 0;
  out.append(std::string_view(s).substr(0, sign));
  if (!d.left) out.append(padding, zeros ? '0' : ' ');
  out.append(std::string_view(s).substr(sign));
  if (d.left) out.append(padding, ' ');
}

// What a field such as {}, {0} or {name} stands for.
Result<Value> field_value(std::string_view field, const Args& args, std::size_t& next) {
  const bool number = std::all_of(field.begin(), field.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (number) {
    std::size_t index = 0;
    if (field.empty()) {
      index = next++;
    } else {
      for (const char c : field.substr(0, 6)) index = index * 10 + static_cast<std::size_t>(c - '0');
    }
    if (index < args.positional.size()) return args.positional[index];
  }
  for (const auto& [name, value] : args.named) {
    if (name == field) return value;
  }
  return fail(Errc::bad_file, "format() has no value for '{{{}}}'", field.substr(0, 40));
}

void write_json_string(std::string_view s, bool ascii, TextBuilder& out) {
  out.append("\"");
  for (std::size_t i = 0; i < s.size();) {
    const std::size_t start = i;
    const char32_t c = next_code_point(s, i);
    static constexpr std::string_view kSpecial = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf";
    const std::size_t special = c < 0x80 ? kSpecial.find(static_cast<char>(c)) : kSpecial.npos;
    if (special != kSpecial.npos) {
      out.append(1, '\\');
      out.append(1, kLetters[special]);
    } else if (c < 0x20 || (ascii && c >= 0x7F && c < 0x10000 && c != 0x7F)) {
      out.append(fmt::format("\\u{:04x}", static_cast<unsigned>(c)));
    } else if (ascii && c >= 0x10000) {
      const unsigned v = static_cast<unsigned>(c) - 0x10000;
      out.append(fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (v >> 10), 0xDC00 + (v & 0x3FF)));
    } else {
      out.append(s.substr(start, i - start));
    }
  }
  out.append("\"");
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, TextBuilder& out) : style_(style), out_(out) {}

  Result<void> write(const Value& v, std::size_t level) {
    if (!out_.budget().spend(1)) return out_.budget().error();
    if (const std::string* s = v.text()) {
      write_json_string(*s, style_.ascii, out_);
    } else if (const Dict* d = v.dict()) {
      return write_dict(*d, level);
    } else if (const Sequence* items = v.sequence();
               items && (items->kind == SequenceKind::list || items->kind == SequenceKind::tuple)) {
      return write_list(*items, level);
    } else {
      QUIRE_TRY(const std::string scalar, scalar_text(v));
      out_.append(scalar);
    }
    return {};
  }

 private:
  static Result<std::string> scalar_text(const Value& v) {
    if (v.is<None>()) return std::string("null");
    if (v.is<bool>()) return std::string(truthy(v) ? "true" : "false");
    if (v.integer()) return fmt::format("{}", *v.integer());
    if (!v.number()) return fail(Errc::bad_file, "a {} cannot be written as JSON", type_name(v));
    const double d = *v.number();
    if (std::isnan(d)) return std::string("NaN");
    if (std::isinf(d)) return std::string(d < 0 ? "-Infinity" : "Infinity");
    return float_repr(d);
  }

  void break_line(std::size_t level) {
    if (!style_.indent) return;
    out_.append("\n");
    for (std::size_t i = 0; i < level; ++i) out_.append(*style_.indent);
  }

  Result<void> write_list(const Sequence& s, std::size_t level) {
    out_.append("[");
    for (std::size_t i = 0; i < s.items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      break_line(level + 1);
      QUIRE_CHECK_OK(write(s.items[i], level + 1));
    }
    if (!s.items.empty()) break_line(level);
    out_.append("]");
    return {};
  }

  Result<void> write_dict(const Dict& d, std::size_t level) {
    std::vector<std::size_t> positions(d.entries.size());
    std::iota(positions.begin(), positions.end(), 0);
    if (style_.sort_keys) {
      for (const auto& [key, value] : d.entries) {
        if (!key.text()) return fail(Errc::unsupported, "only string keys can be sorted for JSON");
      }
      std::stable_sort(positions.begin(), positions.end(), [&](std::size_t a, std::size_t b) {
        return *d.entries[a].first.text() < *d.entries[b].first.text();
      });
    }
    out_.append("{");
    bool first = true;
    for (const std::size_t i : positions) {
      const auto& [key, value] = d.entries[i];
      if (!first) out_.append(style_.item_separator);
      first = false;
      break_line(level + 1);
      if (const std::string* s = key.text()) {
        write_json_string(*s, style_.ascii, out_);
      } else {
        QUIRE_TRY(const std::string scalar, scalar_text(key));
        out_.append("\"" + scalar + "\"");
      }
      out_.append(style_.key_separator);
      QUIRE_CHECK_OK(write(value, level + 1));
    }
    if (!first) break_line(level);
    out_.append("}");
    return {};
  }

  const JsonStyle& style_;
  TextBuilder& out_;
};

}  // namespace

Result<Value> format_percent(std::string_view pattern, const Value& operand, Budget& budget) {
  const Sequence* tuple = operand.sequence();
  if (tuple && tuple->kind != SequenceKind::tuple) tuple = nullptr;
  const std::size_t count = tuple ? tuple->items.size() : 1;
  std::size_t used = 0;
  TextBuilder out(budget);
  for (std::size_t i = 0; i < pattern.size();) {
    const std::size_t percent = std::min(pattern.find('%', i), pattern.size());
    out.append(pattern.substr(i, percent - i));
    if ((i = percent) == pattern.size()) break;
    if (!budget.spend(1)) return budget.error();
    QUIRE_TRY(const Directive directive, parse_directive(pattern, ++i));
    if (directive.letter == '%') {
      out.append("%");
      continue;
    }
    if (used == count) return fail(Errc::bad_file, "a format has more directives than values");
    QUIRE_TRY(std::string s, format_one(directive, tuple ? tuple->items[used] : operand, budget));
    ++used;
    append_padded(directive, std::move(s), out);
  }
  // A list, a dict or something undefined may go unused as the only operand: Python takes it for a mapping.
  const bool mapping = !tuple && (operand.dict() || operand.sequence() || operand.is<Undefined>());
  if (used < count && !mapping) {
    return fail(Errc::bad_file, "a format has fewer directives than values");
  }
  return text(out.take());
}

Result<Value> format_braces(std::string_view pattern, const Args& args, Budget& budget) {
  TextBuilder out(budget);
  std::size_t next = 0;
  for (std::size_t i = 0; i < pattern.size();) {
    const char c = pattern[i];
    if (c != '{' && c != '}') {
      const std::size_t end = std::min(pattern.find_first_of("{}", i), pattern.size());
      out.append(pattern.substr(i, end - i));
      i = end;
    } else if (i + 1 < pattern.size() && pattern[i + 1] == c) {
      out.append(1, c);
      i += 2;
    } else {
      const std::size_t close = pattern.find('}', i);
      if (c == '}' || close == pattern.npos) return fail(Errc::bad_file, "format() has an unmatched brace");
      const std::string_view field = pattern.substr(i + 1, close - i - 1);
      if (field.find_first_of(":!.[{") != field.npos) {
        return fail(Errc::unsupported, "format() does not support '{{{}}}'", field.substr(0, 40));
      }
      if (!budget.spend(1 + args.named.size())) return budget.error();
      QUIRE_TRY(const Value v, field_value(field, args, next));
      QUIRE_CHECK_OK(write_str(v, out));
      i = close + 1;
    }
  }
  return text(out.take());
}

Result<void> write_json(const Value& v, const JsonStyle& style, TextBuilder& out) {
  return JsonWriter(style, out).write(v, 0);
}

}  // namespace quire::jinja
