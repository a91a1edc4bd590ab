// The tests of the template language (`x is defined`), its functions, and how both take arguments.
#include <algorithm>
#include <ctime>

#include "core/fail.h"
#include "text/jinja_builtins.h"
#include "text/jinja_operators.h"
#include "text/jinja_text.h"

namespace quire::jinja {
namespace {

using Predicate = bool (*)(const Value& v);
struct NamedPredicate {
  std::string_view name;
  Predicate predicate;
};

bool is_mapping(const Value& v) { return v.dict() != nullptr; }
bool is_iterable(const Value& v) { return v.text() || v.sequence() || v.dict() || v.loop() || v.is<Undefined>(); }
bool is_sequence(const Value& v) {
  if (const Sequence* s = v.sequence()) {
    return s->kind == SequenceKind::list || s->kind == SequenceKind::tuple || s->kind == SequenceKind::range;
  }
  return v.text() || v.dict();
}

constexpr NamedPredicate kPredicates[] = {
    {"defined", [](const Value& v) { return !v.is<Undefined>(); }},
    {"undefined", [](const Value& v) { return v.is<Undefined>(); }},
    {"none", [](const Value& v) { return v.is<None>(); }},
    {"boolean", [](const Value& v) { return v.is<bool>(); }},
    {"true", [](const Value& v) { return v.is<bool>() && truthy(v); }},
    {"false", [](const Value& v) { return v.is<bool>() && !truthy(v); }},
    {"integer", [](const Value& v) { return v.is<std::int64_t>(); }},
    {"float", [](const Value& v) { return v.is<double>(); }},
    {"number", [](const Value& v) { return v.number().has_value(); }},
    {"string", [](const Value& v) { return v.text() != nullptr; }},
    {"mapping", is_mapping},
    {"iterable", is_iterable},
    {"sequence", is_sequence},
    {"callable", [](const Value& v) { return v.callable() != nullptr || v.is<Undefined>(); }},
};

struct NamedComparison {
  std::string_view name;
  Operator op;
};
constexpr NamedComparison kComparisons[] = {
    {"==", Operator::eq},       {"eq", Operator::eq}, {"equalto", Operator::eq}, {"!=", Operator::ne},
    {"ne", Operator::ne},       {">", Operator::gt},  {"gt", Operator::gt},      {"greaterthan", Operator::gt},
    {">=", Operator::ge},       {"ge", Operator::ge}, {"<", Operator::lt},       {"lt", Operator::lt},
    {"lessthan", Operator::lt}, {"<=", Operator::le}, {"le", Operator::le},      {"in", Operator::in},
};

// Identity: of objects for containers, of values for the rest, which Python interns or may.
bool same(const Value& a, const Value& b, Budget& budget) {
  if (a.data.index() != b.data.index()) return false;
  if (a.sequence() || a.dict()) return a.sequence() == b.sequence() && a.dict() == b.dict();
  return equal(a, b, budget);
}

Result<Value> range(const Args& args, Budget& budget) {
  // The sandbox's own limit elsewhere.
  constexpr std::int64_t kMaxRange = 100'000;
  QUIRE_TRY(const Bound bound, bind("range", args, {"start", "stop", "step"}, 1));
  for (const Value* v : bound) {
    if (v && !v->integer()) return fail(Errc::bad_file, "range() needs integers, not {}", type_name(*v));
  }
  const std::int64_t start = bound[1] ? *bound[0]->integer() : 0;
  const std::int64_t stop = bound[1] ? *bound[1]->integer() : *bound[0]->integer();
  const std::int64_t step = bound[2] ? *bound[2]->integer() : 1;
  if (step == 0) return fail(Errc::bad_file, "range()'s step is 0");
  std::vector<Value> items;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (items.size() == kMaxRange) return fail(Errc::bad_file, "range() is longer than {}", kMaxRange);
    items.push_back(integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  if (!budget.spend(items.size())) return budget.error();
  std::string label =
      step == 1 ? fmt::format("range({}, {})", start, stop) : fmt::format("range({}, {}, {})", start, stop, step);
  return sequence(std::move(items), SequenceKind::range, budget, std::move(label));
}

Result<Value> make_dict(const Args& args, Budget& budget) {
  if (args.positional.size() > 1) return fail(Errc::bad_file, "dict() takes one argument without a name");
  std::vector<std::pair<Value, Value>> entries;
  if (!args.positional.empty()) {
    if (const Dict* d = args.positional[0].dict()) {
      entries = d->entries;
    } else {
      QUIRE_TRY(const std::vector<Value> pairs, iterate(args.positional[0], budget));
      for (const Value& pair : pairs) {
        if (!budget.spend(1)) return budget.error();
        QUIRE_TRY(std::vector<Value> items, iterate(pair, budget));
        if (items.size() != 2 || !hashable(items[0]))
          return fail(Errc::bad_file, "dict() needs pairs of key and value");
        insert(entries, std::move(items[0]), std::move(items[1]), budget);
      }
    }
  }
  for (const auto& [name, value] : args.named) {
    if (!budget.spend(1)) return budget.error();
    insert(entries, text(name), value, budget);
  }
  return dict(std::move(entries), budget);
}

Result<Value> raise_exception(const Args& args, Budget& budget) {
  QUIRE_TRY(const Bound bound, bind("raise_exception", args, {"message"}, 1));
  QUIRE_TRY(std::string message, to_str(*bound[0], budget));
  std::replace_if(
      message.begin(), message.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return fail(Errc::invalid_argument, "the template refuses these messages: {}", message.substr(0, 400));
}

Result<Value> strftime_now(const Args& args, Budget&) {
  QUIRE_TRY(const Bound bound, bind("strftime_now", args, {"format"}, 1));
  QUIRE_TRY(const std::string_view format, need_text(bound[0], "strftime_now"));
  constexpr std::size_t kLongest = 1024;
  if (format.empty()) return text("");
  if (format.size() > kLongest) return fail(Errc::bad_file, "strftime_now()'s format is too long");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::string out(kLongest, '\0');
  const std::size_t size = std::strftime(out.data(), out.size(), std::string(format).c_str(), &local);
  if (size == 0) return fail(Errc::bad_file, "strftime_now() gives nothing, or too much");
  return text(std::string_view(out).substr(0, size));
}

}  // namespace

Function find_function(std::string_view name) {
  if (name == "range") return range;
  if (name == "dict") return make_dict;
  if (name == "raise_exception") return raise_exception;
  if (name == "strftime_now") return strftime_now;
  return nullptr;
}

Result<bool> call_test(std::string_view name, const Value& v, const Args& args, Budget& budget) {
  pay_for(v, args, budget);
  for (const NamedPredicate& p : kPredicates) {
    if (p.name != name) continue;
    QUIRE_TRY([[maybe_unused]] const Bound bound, bind(name, args, {}));
    return p.predicate(v);
  }
  for (const NamedComparison& c : kComparisons) {
    if (c.name != name) continue;
    QUIRE_TRY(const Bound bound, bind(name, args, {"other"}, 1));
    return compare(c.op, v, *bound[0], budget);
  }
  if (name == "sameas") {
    QUIRE_TRY(const Bound bound, bind(name, args, {"other"}, 1));
    return same(v, *bound[0], budget);
  }
  if (name == "odd" || name == "even" || name == "divisibleby") {
    const bool has_divisor = name == "divisibleby";
    QUIRE_TRY(const Bound bound, bind(name, args, {"num"}, has_divisor ? 1 : 0));
    if (v.text()) return fail(Errc::bad_file, "'{}' needs a number, not str", name);
    QUIRE_TRY(const Value rest, arithmetic(Operator::mod, v, has_divisor ? *bound[0] : integer(2), budget));
    return equal(rest, integer(name == "odd" ? 1 : 0), budget);
  }
  if (name == "lower" || name == "upper") {
    QUIRE_TRY([[maybe_unused]] const Bound bound, bind(name, args, {}));
    QUIRE_TRY(const std::string s, to_str(v, budget));
    QUIRE_TRY(const Value is_case, call_method(text(s), name == "lower" ? "islower" : "isupper", {}, budget));
    return truthy(is_case);
  }
  return fail(Errc::unsupported, "the test '{}' is not supported", name);
}

Result<Bound> bind(std::string_view function, const Args& args, std::initializer_list<std::string_view> parameters,
                   std::size_t required) {
  Bound bound(parameters.size(), nullptr);
  if (args.positional.size() > bound.size())
    return fail(Errc::bad_file, "{} takes at most {} arguments", function, bound.size());
  for (std::size_t i = 0; i < args.positional.size(); ++i) bound[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) return fail(Errc::bad_file, "{} has no parameter '{}'", function, name);
    const Value*& slot = bound[static_cast<std::size_t>(found - parameters.begin())];
    if (slot) return fail(Errc::bad_file, "{} is given '{}' twice", function, name);
    slot = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (!bound[i]) return fail(Errc::bad_file, "{} needs '{}'", function, *(parameters.begin() + i));
  }
  return bound;
}

Result<std::string_view> need_text(const Value* v, std::string_view function) {
  if (v && v->text()) return std::string_view(*v->text());
  if (v && v->is<Undefined>()) return undefined_error(*v);
  return fail(Errc::bad_file, "{} needs a string, not {}", function, v ? type_name(*v) : "nothing");
}

Result<std::int64_t> integer_or(const Value* v, std::int64_t fallback, std::string_view function) {
  if (!given(v)) return fallback;
  if (const auto i = v->integer()) return *i;
  return fail(Errc::bad_file, "{} needs an integer, not {}", function, type_name(*v));
}

void pay_for(const Value& subject, const Args& args, Budget& budget) {
  const auto pay = [&](const Value& v) {
    if (v.text()) budget.spend_bytes(v.text()->size());
    if (v.sequence() && v.sequence()->kind == SequenceKind::tuple) budget.spend(v.sequence()->items.size());
  };
  pay(subject);
  for (const Value& v : args.positional) pay(v);
  for (const auto& [name, v] : args.named) pay(v);
}

bool given(const Value* v) { return v && !v->is<None>(); }

}  // namespace quire::jinja
