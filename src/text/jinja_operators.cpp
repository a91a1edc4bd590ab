#include "text/jinja_operators.h"

#include <algorithm>
#include <cmath>

#include "core/fail.h"
#include "text/jinja_builtins.h"
#include "text/jinja_format.h"
#include "text/jinja_text.h"

namespace quire::jinja {
namespace {

std::string_view sign_of(Operator op) {
  static constexpr std::string_view kSigns[] = {
      "+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"};
  return kSigns[static_cast<std::size_t>(op)];
}

Error type_error(Operator op, const Value& a, const Value& b) {
  if (a.is<Undefined>()) return undefined_error(a);
  if (b.is<Undefined>()) return undefined_error(b);
  return fail(Errc::bad_file, "'{}' does not work on {} and {}", sign_of(op), type_name(a), type_name(b));
}

Error overflow() { return fail(Errc::bad_file, "an integer is too large"); }
Error division_by_zero() { return fail(Errc::bad_file, "division by zero"); }

Result<Value> integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return division_by_zero();
    return real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  std::int64_t result = 1;
  for (;;) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) return overflow();
    exponent >>= 1;
    if (exponent == 0) return integer(result);
    if (__builtin_mul_overflow(base, base, &base)) return overflow();
  }
}

Result<Value> integer_arithmetic(Operator op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case Operator::add:
      if (__builtin_add_overflow(a, b, &result)) return overflow();
      return integer(result);
    case Operator::sub:
      if (__builtin_sub_overflow(a, b, &result)) return overflow();
      return integer(result);
    case Operator::mul:
      if (__builtin_mul_overflow(a, b, &result)) return overflow();
      return integer(result);
    case Operator::div:
      if (b == 0) return division_by_zero();
      return real(static_cast<double>(a) / static_cast<double>(b));
    case Operator::floor_div:
    case Operator::mod: {
      if (b == 0) return division_by_zero();
      if (b == -1) return op == Operator::mod ? Result<Value>(integer(0)) : integer_arithmetic(Operator::sub, 0, a);
      const bool inexact_negative = a % b != 0 && ((a < 0) != (b < 0));
      if (op == Operator::mod) return integer(a % b + (inexact_negative ? b : 0));
      return integer(a / b - (inexact_negative ? 1 : 0));
    }
    default:
      return integer_power(a, b);
  }
}

Result<Value> float_arithmetic(Operator op, double a, double b) {
  switch (op) {
    case Operator::add:
      return real(a + b);
    case Operator::sub:
      return real(a - b);
    case Operator::mul:
      return real(a * b);
    case Operator::div:
      if (b == 0) return division_by_zero();
      return real(a / b);
    case Operator::floor_div:
    case Operator::mod: {
      if (b == 0) return division_by_zero();
      double remainder = std::fmod(a, b);
      double quotient = (a - remainder) / b;
      if (remainder != 0 && ((b < 0) != (remainder < 0))) {
        remainder += b;
        quotient -= 1;
      } else if (remainder == 0) {
        remainder = std::copysign(0.0, b);
      }
      if (op == Operator::mod) return real(remainder);
      if (quotient == 0) return real(std::copysign(0.0, a / b));
      const double floored = std::floor(quotient);
      return real(quotient - floored > 0.5 ? floored + 1 : floored);
    }
    default: {
      if (a == 0 && b < 0) return division_by_zero();
      const double result = std::pow(a, b);
      if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) {
        return fail(Errc::bad_file, "a negative number has no fractional power");
      }
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b))
        return fail(Errc::bad_file, "a number is too large");
      return real(result);
    }
  }
}

Result<Value> repeat(const Value& v, std::int64_t count, Budget& budget) {
  const auto times = static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
  if (const std::string* s = v.text()) {
    TextBuilder out(budget);
    if (s->size() == 1) {
      out.append(times, s->front());
    } else if (!s->empty()) {
      for (std::size_t i = 0; i < times && budget.spend(1); ++i) out.append(*s);
    }
    return text(out.take());
  }
  const Sequence& s = *v.sequence();
  std::vector<Value> items;
  if (!s.items.empty()) {
    for (std::size_t i = 0; i < times && budget.spend(s.items.size()); ++i) {
      items.insert(items.end(), s.items.begin(), s.items.end());
    }
  }
  return sequence(std::move(items), s.kind, budget);
}

bool repeatable(const Value& v) {
  return v.text() ||
         (v.sequence() && (v.sequence()->kind == SequenceKind::list || v.sequence()->kind == SequenceKind::tuple));
}

Result<Value> concatenate(const Value& a, const Value& b, Budget& budget) {
  if (a.text() && b.text()) {
    TextBuilder out(budget);
    out.append(*a.text());
    out.append(*b.text());
    return text(out.take());
  }
  if (!a.sequence() || !b.sequence() || !repeatable(a) || a.sequence()->kind != b.sequence()->kind) {
    return type_error(Operator::add, a, b);
  }
  std::vector<Value> items = a.sequence()->items;
  items.insert(items.end(), b.sequence()->items.begin(), b.sequence()->items.end());
  return sequence(std::move(items), a.sequence()->kind, budget);
}

Result<bool> contains(const Value& container, const Value& v, Budget& budget) {
  if (const std::string* s = container.text()) {
    if (!v.text()) return type_error(Operator::in, v, container);
    budget.spend_bytes(s->size() + v.text()->size());
    return find_text(*s, *v.text()) != std::string::npos;
  }
  if (const Dict* d = container.dict()) {
    if (!hashable(v)) return type_error(Operator::in, v, container);
    return find(*d, v, budget) != nullptr;
  }
  if (!container.sequence() && !container.is<Undefined>()) return type_error(Operator::in, v, container);
  QUIRE_TRY(const std::vector<Value> items, iterate(container, budget));
  return std::any_of(items.begin(), items.end(), [&](const Value& item) { return equal(item, v, budget); });
}

Result<std::partial_ordering> order_sequences(const Sequence& a, const Sequence& b, Budget& budget) {
  const std::size_t common = std::min(a.items.size(), b.items.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (!equal(a.items[i], b.items[i], budget)) return order(a.items[i], b.items[i], budget);
  }
  return std::partial_ordering(a.items.size() <=> b.items.size());
}

}  // namespace

Error undefined_error(const Value& v) {
  const Undefined* u = std::get_if<Undefined>(&v.data);
  if (!u || !u->name) return fail(Errc::bad_file, "an undefined value is used");
  return fail(Errc::bad_file, "'{}' is undefined", *u->name);
}

Result<Value> arithmetic(Operator op, const Value& a, const Value& b, Budget& budget) {
  if (op == Operator::concat) {
    TextBuilder out(budget);
    QUIRE_CHECK_OK(write_str(a, out));
    QUIRE_CHECK_OK(write_str(b, out));
    return text(out.take());
  }
  const auto x = a.integer(), y = b.integer();
  if (x && y) return integer_arithmetic(op, *x, *y);
  if (a.number() && b.number()) return float_arithmetic(op, *a.number(), *b.number());
  if (op == Operator::add) return concatenate(a, b, budget);
  if (op == Operator::mul && y && repeatable(a)) return repeat(a, *y, budget);
  if (op == Operator::mul && x && repeatable(b)) return repeat(b, *x, budget);
  if (op == Operator::mod && a.text()) return format_percent(*a.text(), b, budget);
  return type_error(op, a, b);
}

Result<Value> negate(const Value& v) {
  if (const auto i = v.integer()) return integer_arithmetic(Operator::sub, 0, *i);
  if (const auto d = v.number()) return real(-*d);
  if (v.is<Undefined>()) return undefined_error(v);
  return fail(Errc::bad_file, "a {} has no sign", type_name(v));
}

Result<std::partial_ordering> order(const Value& a, const Value& b, Budget& budget) {
  const auto x = a.integer(), y = b.integer();
  if (x && y) return std::partial_ordering(*x <=> *y);
  if (a.number() && b.number()) {
    const long double l = x ? static_cast<long double>(*x) : static_cast<long double>(*a.number());
    const long double r = y ? static_cast<long double>(*y) : static_cast<long double>(*b.number());
    return l <=> r;
  }
  if (a.text() && b.text()) {
    budget.spend_bytes(std::min(a.text()->size(), b.text()->size()));
    // The order of UTF-8 bytes is the order of code points.
    return std::partial_ordering(a.text()->compare(*b.text()) <=> 0);
  }
  if (repeatable(a) && repeatable(b) && a.sequence() && b.sequence() && a.sequence()->kind == b.sequence()->kind) {
    return order_sequences(*a.sequence(), *b.sequence(), budget);
  }
  return type_error(Operator::lt, a, b);
}

Result<bool> compare(Operator op, const Value& a, const Value& b, Budget& budget) {
  if (op == Operator::eq) return equal(a, b, budget);
  if (op == Operator::ne) return !equal(a, b, budget);
  if (op == Operator::in) return contains(b, a, budget);
  if (op == Operator::not_in) {
    QUIRE_TRY(const bool found, contains(b, a, budget));
    return !found;
  }
  QUIRE_TRY(const std::partial_ordering ordering, order(a, b, budget));
  if (op == Operator::lt) return ordering < 0;
  if (op == Operator::le) return ordering <= 0;
  if (op == Operator::gt) return ordering > 0;
  return ordering >= 0;
}

void insert(std::vector<std::pair<Value, Value>>& entries, Value key, Value value, Budget& budget) {
  for (auto& [name, slot] : entries) {
    if (!equal(name, key, budget)) continue;
    slot = std::move(value);
    return;
  }
  entries.emplace_back(std::move(key), std::move(value));
}

Result<std::vector<Value>> iterate(const Value& v, Budget& budget) {
  std::vector<Value> items;
  if (const Sequence* s = v.sequence()) {
    const bool generator = s->kind == SequenceKind::generator;
    if ((!generator || !std::exchange(s->consumed, true)) && budget.spend(s->items.size())) items = s->items;
  } else if (const Dict* d = v.dict()) {
    if (!budget.spend(d->entries.size())) return budget.error();
    for (const auto& [key, value] : d->entries) items.push_back(key);
  } else if (const std::string* characters = v.text()) {
    if (!budget.spend(characters->size())) return budget.error();
    for (std::size_t i = 0; i < characters->size();) {
      const std::size_t start = i;
      next_code_point(*characters, i);
      items.push_back(text(std::string_view(*characters).substr(start, i - start)));
    }
  } else if (!v.is<Undefined>()) {
    return fail(Errc::bad_file, "a {} cannot be iterated", type_name(v));
  }
  if (budget.exhausted()) return budget.error();
  return items;
}

Result<std::int64_t> length(const Value& v, Budget& budget) {
  if (v.is<Undefined>()) return 0;
  if (const Dict* d = v.dict()) return static_cast<std::int64_t>(d->entries.size());
  if (const std::string* s = v.text()) {
    budget.spend_bytes(s->size());
    return static_cast<std::int64_t>(code_point_count(*s));
  }
  if (const Sequence* s = v.sequence(); s && s->kind != SequenceKind::generator) {
    return static_cast<std::int64_t>(s->items.size());
  }
  if (const Loop* loop = v.loop()) return static_cast<std::int64_t>(loop->items.size());
  return fail(Errc::bad_file, "a {} has no length", type_name(v));
}

}  // namespace quire::jinja
