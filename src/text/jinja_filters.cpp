#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "core/fail.h"
#include "text/jinja_builtins.h"
#include "text/jinja_format.h"
#include "text/jinja_operators.h"
#include "text/jinja_text.h"

namespace quire::jinja {
namespace {

// --- On text. The subject may be of any type; it is printed first. ---

Result<Value> upper_filter(const Value& v, const Args&, Budget& budget) {
  QUIRE_TRY(const std::string s, to_str(v, budget));
  return text(upper(s));
}

Result<Value> lower_filter(const Value& v, const Args&, Budget& budget) {
  QUIRE_TRY(const std::string s, to_str(v, budget));
  return text(lower(s));
}

Result<Value> capitalize(const Value& v, const Args&, Budget& budget) {
  QUIRE_TRY(const std::string s, to_str(v, budget));
  std::u32string out = decode(s);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = i == 0 ? to_upper(out[i]) : to_lower(out[i]);
  return text(encode(out));
}

// Words start after spaces, hyphens and opening brackets: unlike str.title(), not after quotes.
Result<Value> title(const Value& v, const Args&, Budget& budget) {
  QUIRE_TRY(const std::string s, to_str(v, budget));
  std::u32string out = decode(s);
  bool in_word = false;
  for (char32_t& c : out) {
    c = in_word ? to_lower(c) : to_upper(c);
    in_word = !is_space(c) && std::u32string_view(U"-({[<").find(c) == std::u32string_view::npos;
  }
  return text(encode(out));
}

Result<Value> trim(const Value& v, const Args& args, Budget& budget) {
  QUIRE_TRY(const std::string s, to_str(v, budget));
  return call_method(text(s), "strip", args, budget);
}

Result<Value> replace(const Value& v, const Args& args, Budget& budget) {
  QUIRE_TRY(const Bound bound, bind("replace", args, {"old", "new", "count"}, 2));
  QUIRE_TRY(const std::string s, to_str(v, budget));
  QUIRE_TRY(const std::string from, to_str(*bound[0], budget));
  QUIRE_TRY(const std::string to, to_str(*bound[1], budget));
  QUIRE_TRY(std::int64_t limit, integer_or(bound[2], -1, "replace"));
  TextBuilder out(budget);
  std::size_t at = 0;
  if (from.empty()) {
    for (; limit != 0 && budget.spend(1); --limit) {
      out.append(to);
      if (at == s.size()) break;
      const std::size_t start = at;
      next_code_point(s, at);
      out.append(std::string_view(s).substr(start, at - start));
    }
  } else {
    for (std::size_t found; limit != 0 && (found = find_text(s, from, at)) != s.npos && budget.spend(1); --limit) {
      out.append(std::string_view(s).substr(at, found - at));
      out.append(to);
      at = found + from.size();
    }
  }
  out.append(std::string_view(s).substr(at));
  return text(out.take());
}

Result<Value> escape(const Value& v, const Args&, Budget& budget) {
  QUIRE_TRY(const std::string s, to_str(v, budget));
  TextBuilder out(budget);
  for (const char c : s) {
    static constexpr std::string_view kSpecial = "&<>'\"";
    static constexpr std::string_view kEntities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    const std::size_t special = kSpecial.find(c);
    out.append(special == kSpecial.npos ? std::string_view(&c, 1) : kEntities[special]);
  }
  return text(out.take());
}

Result<Value> to_text(const Value& v, const Args&, Budget& budget) {
  QUIRE_TRY(const std::string s, to_str(v, budget));
  return text(s);
}

Result<Value> indent(const Value& v, const Args& args, Budget& budget) {
  QUIRE_TRY(const Bound bound, bind("indent", args, {"width", "first", "blank"}));
  QUIRE_TRY(const std::string_view subject, need_text(&v, "indent"));
  TextBuilder padding(budget);
  if (bound[0] && bound[0]->text()) {
    padding.append(*bound[0]->text());
  } else {
    QUIRE_TRY(const std::int64_t width, integer_or(bound[0], 4, "indent"));
    padding.append(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
  }
  const std::string one = padding.take();
  const bool first = bound[1] && truthy(*bound[1]), blank = bound[2] && truthy(*bound[2]);
  const std::string source = std::string(subject) + "\n";
  TextBuilder out(budget);
  bool at_first = true;
  for (const std::string_view line : split_lines(source, false)) {
    if (!at_first) out.append("\n");
    if (at_first ? first : blank || !line.empty()) out.append(one);
    out.append(line);
    at_first = false;
  }
  return text(out.take());
}

Result<Value> format_filter(const Value& v, const Args& args, Budget& budget) {
  QUIRE_TRY(const std::string s, to_str(v, budget));
  if (!args.named.empty()) return fail(Errc::unsupported, "format with named values is not supported");
  return format_percent(s, tuple(args.positional, budget), budget);
}

Result<Value> tojson(const Value& v, const Args& args, Budget& budget) {
  QUIRE_TRY(const Bound bound, bind("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ascii = bound[0] && truthy(*bound[0]);
  style.sort_keys = bound[3] && truthy(*bound[3]);
  if (given(bound[1])) {
    style.item_separator = ",";
    if (bound[1]->text()) {
      style.indent = *bound[1]->text();
    } else {
      QUIRE_TRY(const std::int64_t width, integer_or(bound[1], 0, "tojson"));
      style.indent = std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(width, 0, 1000)), ' ');
    }
  }
  if (given(bound[2])) {
    const Sequence* pair = bound[2]->sequence();
    if (!pair || pair->items.size() != 2 || !pair->items[0].text() || !pair->items[1].text()) {
      return fail(Errc::bad_file, "tojson needs two separators");
    }
    style.item_separator = *pair->items[0].text();
    style.key_separator = *pair->items[1].text();
  }
  TextBuilder out(budget);
  QUIRE_CHECK_OK(write_json(v, style, out));
  return text(out.take());
}

// --- On numbers ---

// Digits in Python's notation: a sign, single underscores between digits, space around.
std::optional<std::string> plain_number(std::string_view s) {
  s = strip_right(strip_left(s));
  std::string out;
  for (std::size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '_') {
      out.push_back(s[i]);
      continue;
    }
    const auto alnum = [](char c) {
      return is_digit(static_cast<unsigned char>(c)) || is_alpha(static_cast<unsigned char>(c));
    };
    if (i == 0 || i + 1 == s.size() || !alnum(s[i - 1]) || !alnum(s[i + 1])) return std::nullopt;
  }
  if (out.starts_with('+') && out.size() > 1 && out[1] != '-') out.erase(0, 1);
  if (out.empty()) return std::nullopt;
  return out;
}

std::optional<double> parse_float(std::string_view s) {
  const auto digits = plain_number(s);
  if (!digits) return std::nullopt;
  double d = 0;
  const auto [stop, error] = std::from_chars(digits->data(), digits->data() + digits->size(), d);
  if (stop != digits->data() + digits->size()) return std::nullopt;
  // from_chars tells overflow from underflow only by leaving d alone; strtod gives inf or 0.
  if (error == std::errc::result_out_of_range) return std::strtod(digits->c_str(), nullptr);
  if (error != std::errc()) return std::nullopt;
  return d;
}

Result<Value> truncated(double d) {
  if (!(std::fabs(d) < 0x1p63)) return fail(Errc::bad_file, "{} is too large for an integer", float_repr(d));
  return integer(static_cast<std::int64_t>(d));
}

Result<Value> to_integer(const Value& v, const Args& args, Budget&) {
  QUIRE_TRY(const Bound bound, bind("int", args, {"default", "base"}));
  QUIRE_TRY(const std::int64_t base, integer_or(bound[1], 10, "int"));
  const Value fallback = bound[0] ? *bound[0] : integer(0);
  if (v.is<Undefined>()) return undefined_error(v);
  if (const std::string* s = v.text()) {
    if (base < 2 || base > 36) return fail(Errc::unsupported, "int supports bases from 2 to 36");
    if (const auto digits = plain_number(*s)) {
      std::int64_t i = 0;
      const char* end = digits->data() + digits->size();
      const bool prefixed = base == 16 && (digits->starts_with("0x") || digits->starts_with("0X"));
      const auto [stop, error] = std::from_chars(digits->data() + (prefixed ? 2 : 0), end, i, static_cast<int>(base));
      if (stop == end && error == std::errc()) return integer(i);
      if (stop == end) return fail(Errc::bad_file, "an integer is too large");
    }
    const auto d = parse_float(*s);
    if (!d || !std::isfinite(*d)) return fallback;
    return truncated(*d);
  }
  if (const auto i = v.integer()) return integer(*i);
  if (!v.number() || std::isnan(*v.number())) return fallback;
  return truncated(*v.number());
}

Result<Value> to_float(const Value& v, const Args& args, Budget&) {
  QUIRE_TRY(const Bound bound, bind("float", args, {"default"}));
  if (v.is<Undefined>()) return undefined_error(v);
  if (const auto d = v.number()) return real(*d);
  if (const std::string* s = v.text()) {
    if (const auto d = parse_float(*s)) return real(*d);
  }
  return bound[0] ? *bound[0] : real(0);
}

Result<Value> absolute(const Value& v, const Args&, Budget&) {
  if (const auto i = v.integer()) return *i < 0 ? negate(v) : Result<Value>(integer(*i));
  if (const auto d = v.number()) return real(std::fabs(*d));
  if (v.is<Undefined>()) return undefined_error(v);
  return fail(Errc::bad_file, "abs needs a number, not {}", type_name(v));
}

Result<Value> round_filter(const Value& v, const Args& args, Budget& budget) {
  QUIRE_TRY(const Bound bound, bind("round", args, {"precision", "method"}));
  QUIRE_TRY(const std::int64_t wanted, integer_or(bound[0], 0, "round"));
  const std::string_view method = bound[1] && bound[1]->text() ? std::string_view(*bound[1]->text()) : "common";
  if (!v.number()) return v.is<Undefined>() ? undefined_error(v) : fail(Errc::bad_file, "round needs a number");
  const int precision = static_cast<int>(std::clamp<std::int64_t>(wanted, -300, 300));
  const double d = *v.number();
  if (method == "common") {
    if (v.integer() && precision >= 0) return integer(*v.integer());
    if (!std::isfinite(d)) return real(d);
    if (precision < 0) {
      const double scale = std::pow(10.0, -precision);
      const double rounded = std::nearbyint(d / scale) * scale;
      return v.integer() ? truncated(rounded) : Result<Value>(real(rounded));
    }
    // Printing rounds the exact binary value to nearest, ties to even, which is what Python does.
    return real(std::strtod(fmt::format("{:.{}f}", d, precision).c_str(), nullptr));
  }
  if (method != "ceil" && method != "floor") return fail(Errc::bad_file, "round's method is common, ceil or floor");
  QUIRE_TRY(const Value scale, arithmetic(Operator::pow, integer(10), integer(precision), budget));
  QUIRE_TRY(const Value scaled, arithmetic(Operator::mul, v, scale, budget));
  const double up_or_down = method == "ceil" ? std::ceil(*scaled.number()) : std::floor(*scaled.number());
  if (!std::isfinite(up_or_down)) return fail(Errc::bad_file, "round needs a finite number");
  return real(up_or_down / *scale.number());
}

// --- On anything ---

Result<Value> default_filter(const Value& v, const Args& args, Budget&) {
  QUIRE_TRY(const Bound bound, bind("default", args, {"default_value", "boolean"}));
  const bool replaced = v.is<Undefined>() || (bound[1] && truthy(*bound[1]) && !truthy(v));
  if (!replaced) return v;
  return bound[0] ? *bound[0] : text("");
}

Result<Value> length_filter(const Value& v, const Args&, Budget& budget) {
  QUIRE_TRY(const std::int64_t n, length(v, budget));
  return integer(n);
}

Result<Value> attr(const Value& v, const Args& args, Budget& budget) {
  QUIRE_TRY(const Bound bound, bind("attr", args, {"name"}, 1));
  QUIRE_TRY(const std::string_view name, need_text(bound[0], "attr"));
  if (v.dict() && method_access(v, name) == MethodAccess::absent) return undefined(name);
  return get_attribute(v, name, budget);
}

constexpr NamedFilter kFilters[] = {
    {"abs", absolute},
    {"attr", attr},
    {"capitalize", capitalize},
    {"count", length_filter},
    {"d", default_filter},
    {"default", default_filter},
    {"e", escape},
    {"escape", escape},
    {"float", to_float},
    {"forceescape", escape},
    {"format", format_filter},
    {"indent", indent},
    {"int", to_integer},
    {"length", length_filter},
    {"lower", lower_filter},
    {"replace", replace},
    {"round", round_filter},
    {"safe", to_text},
    {"string", to_text},
    {"title", title},
    {"tojson", tojson},
    {"trim", trim},
    {"upper", upper_filter},
};

}  // namespace

Filter find_text_filter(std::string_view name) {
  for (const NamedFilter& f : kFilters) {
    if (f.name == name) return f.filter;
  }
  return nullptr;
}

Result<Value> call_filter(std::string_view name, const Value& subject, const Args& args, Budget& budget) {
  Filter filter = find_text_filter(name);
  if (!filter) filter = find_sequence_filter(name);
  if (!filter) return fail(Errc::unsupported, "the filter '{}' is not supported", name);
  pay_for(subject, args, budget);
  return filter(subject, args, budget);
}

}  // namespace quire::jinja
