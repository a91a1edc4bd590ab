#include <algorithm>
#include <array>

#include "core/fail.h"
#include "text/jinja_builtins.h"
#include "text/jinja_format.h"
#include "text/jinja_operators.h"
#include "text/jinja_text.h"

namespace quire::jinja {
namespace {

using Strings = std::vector<std::string_view>;

Value text_list(const Strings& parts, Budget& budget) {
  std::vector<Value> items;
  if (budget.spend(parts.size())) {
    for (const std::string_view part : parts) items.push_back(text(part));
  }
  return list(std::move(items), budget);
}

Result<Value> strip(const std::string& s, const Args& args, bool left, bool right, Budget& budget) {
  QUIRE_TRY(const Bound bound, bind("strip", args, {"chars"}));
  if (!given(bound[0])) {
    std::string_view stripped = s;
    if (left) stripped = strip_left(stripped);
    if (right) stripped = strip_right(stripped);
    return text(stripped);
  }
  QUIRE_TRY(const std::string_view chars, need_text(bound[0], "strip"));
  budget.spend_bytes(chars.size() * 16);  // for the sort
  std::u32string set = decode(chars);
  std::sort(set.begin(), set.end());
  const std::u32string characters = decode(s);
  const auto stripped = [&](char32_t c) { return std::binary_search(set.begin(), set.end(), c); };
  std::size_t begin = 0, end = characters.size();
  while (left && begin < end && stripped(characters[begin])) ++begin;
  while (right && begin < end && stripped(characters[end - 1])) --end;
  return text(encode(std::u32string_view(characters).substr(begin, end - begin)));
}

Strings split_at_spaces(std::string_view s, std::int64_t limit) {
  Strings parts;
  for (s = strip_left(s); !s.empty(); s = strip_left(s)) {
    if (limit-- == 0) {
      parts.push_back(s);
      break;
    }
    std::size_t end = 0;
    for (std::size_t i = 0; i < s.size(); end = i) {
      if (is_space(next_code_point(s, i))) break;
    }
    parts.push_back(s.substr(0, end));
    s.remove_prefix(end);
  }
  return parts;
}

Strings split_at_spaces_from_right(std::string_view s, std::int64_t limit) {
  // All the words, of which those beyond the limit are put back together with what separates them.
  Strings parts = split_at_spaces(s, -1);
  if (limit < 0 || parts.size() <= static_cast<std::size_t>(limit)) return parts;
  const std::size_t joined = parts.size() - static_cast<std::size_t>(limit);
  const std::string_view last = parts[joined - 1];
  Strings out = {s.substr(0, static_cast<std::size_t>(last.data() + last.size() - s.data()))};
  out.insert(out.end(), parts.begin() + static_cast<std::ptrdiff_t>(joined), parts.end());
  return out;
}

Result<Value> split(const std::string& s, const Args& args, bool from_right, Budget& budget) {
  QUIRE_TRY(const Bound bound, bind("split", args, {"sep", "maxsplit"}));
  QUIRE_TRY(std::int64_t limit, integer_or(bound[1], -1, "split"));
  if (limit < 0) limit = -1;
  if (!given(bound[0])) {
    return text_list(from_right ? split_at_spaces_from_right(s, limit) : split_at_spaces(s, limit), budget);
  }
  QUIRE_TRY(const std::string_view separator, need_text(bound[0], "split"));
  if (separator.empty()) return fail(Errc::bad_file, "split() needs a separator that is not empty");
  Strings parts;
  std::string_view rest = s;
  for (; limit != 0; --limit) {
    const std::size_t at = from_right ? find_last_text(rest, separator) : find_text(rest, separator);
    if (at == rest.npos) break;
    if (!budget.spend(1)) return budget.error();
    const std::string_view after = rest.substr(at + separator.size());
    parts.push_back(from_right ? after : rest.substr(0, at));
    rest = from_right ? rest.substr(0, at) : after;
  }
  parts.push_back(rest);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return text_list(parts, budget);
}

Result<Value> partition(const std::string& s, const Args& args, bool from_right, Budget& budget) {
  QUIRE_TRY(const Bound bound, bind("partition", args, {"sep"}, 1));
  QUIRE_TRY(const std::string_view separator, need_text(bound[0], "partition"));
  if (separator.empty()) return fail(Errc::bad_file, "partition() needs a separator that is not empty");
  const std::size_t at = from_right ? find_last_text(s, separator) : find_text(s, separator);
  if (at == s.npos) {
    return from_right ? tuple({text(""), text(""), text(s)}, budget) : tuple({text(s), text(""), text("")}, budget);
  }
  return tuple({text(s.substr(0, at)), text(separator), text(s.substr(at + separator.size()))}, budget);
}

Result<Value> find_in(const std::string& s, const Args& args, bool last, bool must_exist) {
  QUIRE_TRY(const Bound bound, bind("find", args, {"sub"}, 1));
  QUIRE_TRY(const std::string_view sub, need_text(bound[0], "find"));
  const std::size_t at = last ? find_last_text(s, sub) : find_text(s, sub);
  if (at != s.npos) return integer(static_cast<std::int64_t>(code_point_count(std::string_view(s).substr(0, at))));
  if (must_exist) return fail(Errc::bad_file, "index() found nothing");
  return integer(-1);
}

Result<Value> has_affix(const std::string& s, const Args& args, bool prefix) {
  QUIRE_TRY(const Bound bound, bind(prefix ? "startswith" : "endswith", args, {"affix"}, 1));
  const Sequence* options = bound[0]->sequence();
  const bool many = options && options->kind == SequenceKind::tuple;
  for (std::size_t i = 0; i < (many ? options->items.size() : 1); ++i) {
    QUIRE_TRY(const std::string_view affix, need_text(many ? &options->items[i] : bound[0], "startswith"));
    if (prefix ? s.starts_with(affix) : s.ends_with(affix)) return boolean(true);
  }
  return boolean(false);
}

Result<Value> remove_affix(const std::string& s, const Args& args, bool prefix) {
  QUIRE_TRY(const Bound bound, bind("removeprefix", args, {"affix"}, 1));
  QUIRE_TRY(const std::string_view affix, need_text(bound[0], "removeprefix"));
  std::string_view rest = s;
  if (prefix && rest.starts_with(affix)) rest.remove_prefix(affix.size());
  if (!prefix && rest.ends_with(affix)) rest.remove_suffix(affix.size());
  return text(rest);
}

Result<Value> count_in(const std::string& s, const Args& args, Budget&) {
  QUIRE_TRY(const Bound bound, bind("count", args, {"sub"}, 1));
  QUIRE_TRY(const std::string_view sub, need_text(bound[0], "count"));
  if (sub.empty()) return integer(static_cast<std::int64_t>(code_point_count(s)) + 1);
  std::int64_t count = 0;
  for (std::size_t at = 0; (at = find_text(s, sub, at)) != s.npos; at += sub.size()) ++count;
  return integer(count);
}

// Capitals at the start of every run of letters, as str.title() has it.
Result<Value> title(const std::string& s, const Args&, Budget&) {
  std::u32string out = decode(s);
  bool in_word = false;
  for (char32_t& c : out) {
    const bool cased = is_upper(c) || is_lower(c);
    c = in_word ? to_lower(c) : to_upper(c);
    in_word = cased;
  }
  return text(encode(out));
}

Result<Value> join(const std::string& s, const Args& args, Budget& budget) {
  QUIRE_TRY(const Bound bound, bind("join", args, {"iterable"}, 1));
  QUIRE_TRY(const std::vector<Value> items, iterate(*bound[0], budget));
  TextBuilder out(budget);
  for (std::size_t i = 0; i < items.size(); ++i) {
    QUIRE_TRY(const std::string_view item, need_text(&items[i], "join"));
    if (i > 0) out.append(s);
    out.append(item);
  }
  return text(out.take());
}

// All characters pass, and there is at least one.
template <bool (*Test)(char32_t)>
Result<Value> all_of(const std::string& s, const Args&, Budget&) {
  for (std::size_t i = 0; i < s.size();) {
    if (!Test(next_code_point(s, i))) return boolean(false);
  }
  return boolean(!s.empty());
}

bool is_alnum(char32_t c) { return is_alpha(c) || is_digit(c); }

// At least one letter of this case and none of the other.
template <bool (*Wanted)(char32_t), bool (*Other)(char32_t)>
Result<Value> has_case(const std::string& s, const Args&, Budget&) {
  bool found = false;
  for (std::size_t i = 0; i < s.size();) {
    const char32_t c = next_code_point(s, i);
    if (Other(c)) return boolean(false);
    found = found || Wanted(c);
  }
  return boolean(found);
}

template <const char* Name>
Result<Value> as_filter(const std::string& s, const Args& args, Budget& budget) {
  return call_filter(Name, text(s), args, budget);
}
constexpr char kUpper[] = "upper", kLower[] = "lower", kCapitalize[] = "capitalize", kReplace[] = "replace";

Result<Value> replace(const std::string& s, const Args& args, Budget& budget) {
  QUIRE_TRY(const Bound bound, bind("replace", args, {"old", "new", "count"}, 2));
  QUIRE_CHECK_OK([&]() -> Result<void> {  // the filter takes any type, the method only strings
    QUIRE_TRY([[maybe_unused]] auto old_text, need_text(bound[0], "replace"));
    QUIRE_TRY([[maybe_unused]] auto new_text, need_text(bound[1], "replace"));
    return {};
  }());
  return as_filter<kReplace>(s, args, budget);
}

Result<Value> lines(const std::string& s, const Args& args, Budget& budget) {
  QUIRE_TRY(const Bound bound, bind("splitlines", args, {"keepends"}));
  return text_list(split_lines(s, bound[0] && truthy(*bound[0])), budget);
}

using TextMethod = Result<Value> (*)(const std::string& s, const Args& args, Budget& budget);
struct NamedMethod {
  std::string_view name;
  TextMethod method;  // null for those that exist in Python but not here
};

constexpr NamedMethod kTextMethods[] = {
    {"strip", [](const std::string& s, const Args& a, Budget& b) { return strip(s, a, true, true, b); }},
    {"lstrip", [](const std::string& s, const Args& a, Budget& b) { return strip(s, a, true, false, b); }},
    {"rstrip", [](const std::string& s, const Args& a, Budget& b) { return strip(s, a, false, true, b); }},
    {"split", [](const std::string& s, const Args& a, Budget& b) { return split(s, a, false, b); }},
    {"rsplit", [](const std::string& s, const Args& a, Budget& b) { return split(s, a, true, b); }},
    {"partition", [](const std::string& s, const Args& a, Budget& b) { return partition(s, a, false, b); }},
    {"rpartition", [](const std::string& s, const Args& a, Budget& b) { return partition(s, a, true, b); }},
    {"find", [](const std::string& s, const Args& a, Budget&) { return find_in(s, a, false, false); }},
    {"rfind", [](const std::string& s, const Args& a, Budget&) { return find_in(s, a, true, false); }},
    {"index", [](const std::string& s, const Args& a, Budget&) { return find_in(s, a, false, true); }},
    {"rindex", [](const std::string& s, const Args& a, Budget&) { return find_in(s, a, true, true); }},
    {"startswith", [](const std::string& s, const Args& a, Budget&) { return has_affix(s, a, true); }},
    {"endswith", [](const std::string& s, const Args& a, Budget&) { return has_affix(s, a, false); }},
    {"removeprefix", [](const std::string& s, const Args& a, Budget&) { return remove_affix(s, a, true); }},
    {"removesuffix", [](const std::string& s, const Args& a, Budget&) { return remove_affix(s, a, false); }},
    {"format", [](const std::string& s, const Args& a, Budget& b) { return format_braces(s, a, b); }},
    {"count", count_in},
    {"splitlines", lines},
    {"title", title},
    {"join", join},
    {"replace", replace},
    {"upper", as_filter<kUpper>},
    {"lower", as_filter<kLower>},
    {"capitalize", as_filter<kCapitalize>},
    {"isdigit", all_of<is_digit>},
    {"isdecimal", all_of<is_digit>},
    {"isnumeric", all_of<is_digit>},
    {"isalpha", all_of<is_alpha>},
    {"isalnum", all_of<is_alnum>},
    {"isspace", all_of<is_space>},
    {"isupper", has_case<is_upper, is_lower>},
    {"islower", has_case<is_lower, is_upper>},
    {"casefold", nullptr},
    {"center", nullptr},
    {"encode", nullptr},
    {"expandtabs", nullptr},
    {"format_map", nullptr},
    {"isascii", nullptr},
    {"isidentifier", nullptr},
    {"isprintable", nullptr},
    {"istitle", nullptr},
    {"ljust", nullptr},
    {"maketrans", nullptr},
    {"rjust", nullptr},
    {"swapcase", nullptr},
    {"translate", nullptr},
    {"zfill", nullptr},
};

const NamedMethod* find_text_method(std::string_view name) {
  const auto found = std::find_if(std::begin(kTextMethods), std::end(kTextMethods),
                                  [&](const NamedMethod& m) { return m.name == name; });
  return found == std::end(kTextMethods) ? nullptr : found;
}

Error unsupported(const Value& self, std::string_view name) {
  return fail(Errc::unsupported, "the method '{}' of {} is not supported", name, type_name(self));
}

Result<Value> call_dict_method(const Value& self, std::string_view name, const Args& args, Budget& budget) {
  const Dict& d = *self.dict();
  if (name == "get") {
    QUIRE_TRY(const Bound bound, bind("get", args, {"key", "default"}, 1));
    if (!hashable(*bound[0])) return fail(Errc::bad_file, "a {} cannot be a key", type_name(*bound[0]));
    if (const Value* found = find(d, *bound[0], budget)) return *found;
    return bound[1] ? *bound[1] : none();
  }
  if (name == "copy") return self;
  if (name != "items" && name != "keys" && name != "values") return unsupported(self, name);
  QUIRE_CHECK_OK([&]() -> Result<void> {
    QUIRE_TRY([[maybe_unused]] const Bound bound, bind(name, args, {}));
    return {};
  }());
  if (!budget.spend(d.entries.size())) return budget.error();
  std::vector<Value> items;
  for (const auto& [key, value] : d.entries) {
    items.push_back(name == "items" ? tuple({key, value}, budget) : name == "keys" ? key : value);
  }
  const SequenceKind kind = name == "items"  ? SequenceKind::items
                            : name == "keys" ? SequenceKind::keys
                                             : SequenceKind::values;
  return sequence(std::move(items), kind, budget);
}

Result<Value> call_sequence_method(const Value& self, std::string_view name, const Args& args, Budget& budget) {
  const Sequence& s = *self.sequence();
  if (name == "copy") return self;
  QUIRE_TRY(const Bound bound, bind(name, args, {"value"}, 1));
  std::int64_t count = 0;
  for (std::size_t i = 0; i < s.items.size(); ++i) {
    if (!equal(s.items[i], *bound[0], budget)) continue;
    if (name == "index") return integer(static_cast<std::int64_t>(i));
    ++count;
  }
  if (name == "index") return fail(Errc::bad_file, "index() found nothing");
  return integer(count);
}

template <std::size_t N>
bool among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

MethodAccess method_access(const Value& v, std::string_view name) {
  static constexpr std::array<std::string_view, 6> kDict = {"items", "keys", "values", "get", "copy", "fromkeys"};
  static constexpr std::array<std::string_view, 5> kDictChanges = {"clear", "pop", "popitem", "setdefault", "update"};
  static constexpr std::array<std::string_view, 8> kListChanges = {"append", "clear", "pop",    "reverse",
                                                                   "insert", "sort",  "extend", "remove"};
  if (v.text()) return find_text_method(name) ? MethodAccess::allowed : MethodAccess::absent;
  if (v.dict()) {
    if (among(kDictChanges, name)) return MethodAccess::refused;
    return among(kDict, name) ? MethodAccess::allowed : MethodAccess::absent;
  }
  if (const Sequence* s = v.sequence()) {
    const bool is_list = s->kind == SequenceKind::list;
    if (is_list && among(kListChanges, name)) return MethodAccess::refused;
    const bool searchable = is_list || s->kind == SequenceKind::tuple || s->kind == SequenceKind::range;
    if ((searchable && (name == "count" || name == "index")) || (is_list && name == "copy"))
      return MethodAccess::allowed;
  }
  return MethodAccess::absent;
}

Result<Value> call_method(const Value& self, std::string_view name, const Args& args, Budget& budget) {
  if (self.dict()) return call_dict_method(self, name, args, budget);
  if (self.sequence()) return call_sequence_method(self, name, args, budget);
  const std::string* s = self.text();
  const NamedMethod* found = s ? find_text_method(name) : nullptr;
  if (!found || !found->method) return unsupported(self, name);
  pay_for(self, args, budget);
  return found->method(*s, args, budget);
}

}  // namespace quire::jinja
