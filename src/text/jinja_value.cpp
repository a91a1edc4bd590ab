#include "text/jinja_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/fail.h"
#include "text/jinja_text.h"

namespace quire::jinja {
namespace {

int depth_of(const Value& v) {
  if (const Sequence* s = v.sequence()) return s->depth;
  if (const Dict* d = v.dict()) return d->depth;
  if (const Callable* c = v.callable()) return c->depth;
  if (const Loop* l = v.loop()) return l->depth;
  return 0;
}

int depth_of(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& v : items) depth = std::max(depth, depth_of(v));
  return depth + 1;
}

// Python's choice: single quotes, unless that needs escapes and double quotes do not.
void write_quoted(std::string_view s, TextBuilder& out) {
  const bool has_single = s.find('\'') != s.npos;
  const char quote = has_single && s.find('"') == s.npos ? '"' : '\'';
  out.append(1, quote);
  for (std::size_t i = 0; i < s.size();) {
    const std::size_t start = i;
    const char32_t c = next_code_point(s, i);
    if (c == '\n') {
      out.append("\\n");
    } else if (c == '\r') {
      out.append("\\r");
    } else if (c == '\t') {
      out.append("\\t");
    } else if (c == '\\' || c == static_cast<char32_t>(quote)) {
      out.append(1, '\\');
      out.append(1, static_cast<char>(c));
    } else if (c < 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0xAD) {
      out.append(fmt::format("\\x{:02x}", static_cast<unsigned>(c)));
    } else if ((c >= 0xD800 && c <= 0xDFFF) || (is_space(c) && c != ' ')) {
      out.append(fmt::format("\\u{:04x}", static_cast<unsigned>(c)));
    } else {
      out.append(s.substr(start, i - start));
    }
  }
  out.append(1, quote);
}

Result<void> write_items(const std::vector<Value>& items, TextBuilder& out) {
  bool first = true;
  for (const Value& v : items) {
    if (!first) out.append(", ");
    first = false;
    QUIRE_CHECK_OK(write_repr(v, out));
  }
  return {};
}

Result<void> write_sequence(const Sequence& s, TextBuilder& out) {
  switch (s.kind) {
    case SequenceKind::generator:
      return fail(Errc::bad_file, "the result of a filter such as map or select cannot be printed; use |list or |join");
    case SequenceKind::range:
      out.append(s.label);
      return {};
    case SequenceKind::tuple:
      out.append("(");
      QUIRE_CHECK_OK(write_items(s.items, out));
      out.append(s.items.size() == 1 ? ",)" : ")");
      return {};
    case SequenceKind::list:
      out.append("[");
      break;
    case SequenceKind::keys:
      out.append("dict_keys([");
      break;
    case SequenceKind::values:
      out.append("dict_values([");
      break;
    case SequenceKind::items:
      out.append("dict_items([");
      break;
  }
  QUIRE_CHECK_OK(write_items(s.items, out));
  out.append(s.kind == SequenceKind::list ? "]" : "])");
  return {};
}

bool equal_sequences(const Sequence& a, const Sequence& b, Budget& budget) {
  if (a.kind != b.kind || a.items.size() != b.items.size() || a.kind == SequenceKind::generator) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (!equal(a.items[i], b.items[i], budget)) return false;
  }
  return true;
}

bool equal_dicts(const Dict& a, const Dict& b, Budget& budget) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = find(b, key, budget);
    if (!other || !equal(value, *other, budget)) return false;
  }
  return true;
}

template <class T>
Value checked(T object, Budget& budget) {
  if (object.depth > kMaxValueDepth) budget.exhaust("the template nests lists or dicts too deeply");
  if (budget.exhausted()) return undefined();
  return {std::make_shared<const T>(std::move(object))};
}

}  // namespace

std::optional<std::int64_t> Value::integer() const {
  if (is<std::int64_t>()) return std::get<std::int64_t>(data);
  if (is<bool>()) return std::get<bool>(data) ? 1 : 0;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (is<double>()) return std::get<double>(data);
  if (const auto i = integer()) return static_cast<double>(*i);
  return std::nullopt;
}

Value text(std::string_view s) { return {std::make_shared<const std::string>(s)}; }

Value undefined(std::string_view name) {
  constexpr std::size_t kShown = 80;  // in a message
  return {Undefined{name.empty() ? nullptr : std::make_shared<const std::string>(name.substr(0, kShown))}};
}

Value sequence(std::vector<Value> items, SequenceKind kind, Budget& budget, std::string label) {
  budget.spend(items.size());
  const int depth = depth_of(items);
  const bool frozen = kind == SequenceKind::range || kind == SequenceKind::generator ||
                      (kind == SequenceKind::tuple && std::all_of(items.begin(), items.end(), hashable));
  return checked(Sequence{kind, std::move(items), depth, frozen, std::move(label)}, budget);
}

Value dict(std::vector<std::pair<Value, Value>> entries, Budget& budget) {
  budget.spend(entries.size());
  int depth = 0;
  for (const auto& [key, value] : entries) depth = std::max({depth, depth_of(key), depth_of(value)});
  return checked(Dict{std::move(entries), depth + 1}, budget);
}

Value callable(Callable c, Budget& budget) {
  c.depth = depth_of(c.self) + 1;
  return checked(std::move(c), budget);
}

Value loop_object(Loop loop, Budget& budget) {
  loop.depth = depth_of(loop.items) + 1;
  return checked(std::move(loop), budget);
}

std::string_view type_name(const Value& v) {
  static constexpr std::string_view kNames[] = {"undefined", "None", "bool",      "int",      "float", "str",
                                                "list",      "dict", "namespace", "function", "loop"};
  if (const Sequence* s = v.sequence(); s && s->kind != SequenceKind::list) {
    if (s->kind == SequenceKind::tuple) return "tuple";
    return s->kind == SequenceKind::range ? "range" : s->kind == SequenceKind::generator ? "generator" : "dict view";
  }
  return kNames[v.data.index()];
}

bool truthy(const Value& v) {
  if (v.is<Undefined>() || v.is<None>()) return false;
  if (const auto number = v.number()) return *number != 0;
  if (const std::string* s = v.text()) return !s->empty();
  if (const Sequence* s = v.sequence()) return s->kind == SequenceKind::generator || !s->items.empty();
  if (const Dict* d = v.dict()) return !d->entries.empty();
  return true;
}

bool equal(const Value& a, const Value& b, Budget& budget) {
  if (!budget.spend(1)) return false;
  const auto x = a.integer(), y = b.integer();
  if (x && y) return *x == *y;
  if (const auto p = a.number(), q = b.number(); p && q) {
    // A long double holds every 64-bit integer, so 2**53 + 1 stays unequal to 2.0**53.
    const long double l = x ? static_cast<long double>(*x) : static_cast<long double>(*p);
    const long double r = y ? static_cast<long double>(*y) : static_cast<long double>(*q);
    return l == r;
  }
  if (a.data.index() != b.data.index()) return false;
  if (const std::string* s = a.text()) {
    return s->size() == b.text()->size() && budget.spend_bytes(s->size()) && *s == *b.text();
  }
  if (const Sequence* s = a.sequence()) return s == b.sequence() || equal_sequences(*s, *b.sequence(), budget);
  if (const Dict* d = a.dict()) return d == b.dict() || equal_dicts(*d, *b.dict(), budget);
  if (a.is<Undefined>() || a.is<None>()) return true;
  return a.callable() == b.callable() && a.loop() == b.loop() && a.name_space() == b.name_space();
}

const Value* find(const Dict& d, std::string_view key, Budget& budget) {
  if (!budget.spend(d.entries.size() / 8)) return nullptr;
  for (const auto& [name, value] : d.entries) {
    if (const std::string* s = name.text();
        s && s->size() == key.size() && budget.spend_bytes(key.size()) && *s == key) {
      return &value;
    }
  }
  return nullptr;
}

const Value* find(const Dict& d, const Value& key, Budget& budget) {
  if (const std::string* s = key.text()) return find(d, *s, budget);
  for (const auto& [name, value] : d.entries) {
    if (equal(name, key, budget)) return &value;
  }
  return nullptr;
}

std::string float_repr(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  std::string s = fmt::format("{}", d);
  if (s.find_first_of(".e") == s.npos) s += ".0";
  return s;
}

Result<void> write_str(const Value& v, TextBuilder& out) {
  if (const std::string* s = v.text()) {
    out.append(*s);
    return {};
  }
  if (v.is<Undefined>()) return {};
  return write_repr(v, out);
}

Result<void> write_repr(const Value& v, TextBuilder& out) {
  if (!out.budget().spend(1)) return out.budget().error();
  if (v.is<Undefined>()) {
    out.append("Undefined");
  } else if (v.is<None>()) {
    out.append("None");
  } else if (v.is<bool>()) {
    out.append(truthy(v) ? "True" : "False");
  } else if (v.is<std::int64_t>()) {
    out.append(fmt::format("{}", *v.integer()));
  } else if (v.is<double>()) {
    out.append(float_repr(*v.number()));
  } else if (const std::string* s = v.text()) {
    write_quoted(*s, out);
  } else if (const Sequence* sequence = v.sequence()) {
    return write_sequence(*sequence, out);
  } else if (const Dict* d = v.dict()) {
    out.append("{");
    bool first = true;
    for (const auto& [key, value] : d->entries) {
      if (!first) out.append(", ");
      first = false;
      QUIRE_CHECK_OK(write_repr(key, out));
      out.append(": ");
      QUIRE_CHECK_OK(write_repr(value, out));
    }
    out.append("}");
  } else {
    return fail(Errc::bad_file, "a {} cannot be printed", type_name(v));
  }
  return {};
}

Result<std::string> to_str(const Value& v, Budget& budget) {
  TextBuilder out(budget);
  QUIRE_CHECK_OK(write_str(v, out));
  if (budget.exhausted()) return budget.error();
  return out.take();
}

}  // namespace quire::jinja
