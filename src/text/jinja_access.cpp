#include <algorithm>

#include "core/fail.h"
#include "text/jinja_builtins.h"
#include "text/jinja_operators.h"
#include "text/jinja_text.h"

namespace quire::jinja {
namespace {

Value loop_attribute(const Value& v, std::string_view name, Budget& budget) {
  const Loop& loop = *v.loop();
  const auto number = [](std::size_t n) { return integer(static_cast<std::int64_t>(n)); };
  const std::size_t count = loop.items.size();
  if (name == "index") return number(loop.index + 1);
  if (name == "index0") return number(loop.index);
  if (name == "revindex") return number(count - loop.index);
  if (name == "revindex0") return number(count - loop.index - 1);
  if (name == "first") return boolean(loop.index == 0);
  if (name == "last") return boolean(loop.index + 1 == count);
  if (name == "length") return number(count);
  if (name == "depth") return integer(1);  // counts recursive calls of a loop, not loops in loops
  if (name == "depth0") return integer(0);
  if (name == "previtem" && loop.index > 0) return loop.items[loop.index - 1];
  if (name == "nextitem" && loop.index + 1 < count) return loop.items[loop.index + 1];
  if (name == "cycle") return callable({Callable::Kind::cycle, "cycle", v}, budget);
  return undefined(name);
}

const Value* entry(const Value& v, const Value& key, Budget& budget) {
  if (const Dict* d = v.dict()) return hashable(key) ? find(*d, key, budget) : nullptr;
  const Sequence* s = v.sequence();
  const auto index = key.integer();
  if (!s || !index) return nullptr;
  const bool subscriptable =
      s->kind == SequenceKind::list || s->kind == SequenceKind::tuple || s->kind == SequenceKind::range;
  const auto size = static_cast<std::int64_t>(s->items.size());
  const std::int64_t at = *index < 0 ? *index + size : *index;
  if (!subscriptable || at < 0 || at >= size) return nullptr;
  return &s->items[static_cast<std::size_t>(at)];
}

Value character(const std::string& s, std::int64_t index, Budget& budget) {
  budget.spend_bytes(s.size());
  if (index < 0) index += static_cast<std::int64_t>(code_point_count(s));
  for (std::size_t i = 0; index >= 0 && i < s.size(); --index) {
    const std::size_t start = i;
    next_code_point(s, i);
    if (index == 0) return text(std::string_view(s).substr(start, i - start));
  }
  return undefined();
}

// The positions a Python slice selects out of `size` elements.
struct Slice {
  std::int64_t start, stop, step;
};

Result<Slice> resolve(const Value& start, const Value& stop, const Value& step, std::int64_t size) {
  for (const Value* bound : {&start, &stop, &step}) {
    if (!bound->is<None>() && !bound->integer()) {
      return fail(Errc::bad_file, "a slice needs integers, not {}", type_name(*bound));
    }
  }
  Slice slice{0, 0, step.integer().value_or(1)};
  if (slice.step == 0) return fail(Errc::bad_file, "a slice's step is 0");
  const bool forward = slice.step > 0;
  const std::int64_t low = forward ? 0 : -1, high = forward ? size : size - 1;
  const auto clamp = [&](const Value& bound, std::int64_t fallback) {
    const auto i = bound.integer();
    if (!i) return fallback;
    return std::clamp(*i < 0 ? *i + size : *i, low, high);
  };
  slice.start = clamp(start, forward ? low : high);
  slice.stop = clamp(stop, forward ? high : low);
  // Past this a step leaves the sequence anyway, and the sums below cannot overflow.
  slice.step = std::clamp(slice.step, -size - 1, size + 1);
  return slice;
}

template <class Items>
Items take(const Items& items, const Slice& slice) {
  Items out;
  for (std::int64_t i = slice.start; slice.step > 0 ? i < slice.stop : i > slice.stop; i += slice.step) {
    out.push_back(items[static_cast<std::size_t>(i)]);
  }
  return out;
}

}  // namespace

Result<Value> get_attribute(const Value& v, std::string_view name, Budget& budget) {
  if (v.is<Undefined>()) return undefined_error(v);
  if (v.loop()) return loop_attribute(v, name, budget);
  if (const Namespace* n = v.name_space()) {
    const auto found = n->attributes.find(name);
    return found == n->attributes.end() ? undefined(name) : found->second;
  }
  switch (method_access(v, name)) {
    case MethodAccess::allowed:
      return callable({Callable::Kind::method, std::string(name), v}, budget);
    case MethodAccess::refused:  // it would change the value
      return undefined(name);
    case MethodAccess::absent:
      break;
  }
  if (const Dict* d = v.dict()) {
    if (const Value* found = find(*d, name, budget)) return *found;
  }
  return undefined(name);
}

Result<Value> get_item(const Value& v, const Value& key, Budget& budget) {
  if (v.is<Undefined>()) return undefined_error(v);
  if (const Value* found = entry(v, key, budget)) return *found;
  if (const std::string* s = v.text(); s && key.integer()) return character(*s, *key.integer(), budget);
  if (const std::string* name = key.text()) return get_attribute(v, *name, budget);
  return undefined();
}

Result<Value> get_slice(const Value& v, const Value& start, const Value& stop, const Value& step, Budget& budget) {
  if (v.is<Undefined>()) return undefined_error(v);
  if (const std::string* s = v.text()) {
    budget.spend_bytes(s->size());
    const std::u32string characters = decode(*s);
    QUIRE_TRY(const Slice slice, resolve(start, stop, step, static_cast<std::int64_t>(characters.size())));
    return text(encode(take(characters, slice)));
  }
  const Sequence* s = v.sequence();
  if (!s || (s->kind != SequenceKind::list && s->kind != SequenceKind::tuple && s->kind != SequenceKind::range)) {
    return fail(Errc::bad_file, "a {} cannot be sliced", type_name(v));
  }
  QUIRE_TRY(const Slice slice, resolve(start, stop, step, static_cast<std::int64_t>(s->items.size())));
  return sequence(take(s->items, slice), s->kind == SequenceKind::range ? SequenceKind::list : s->kind, budget);
}

}  // namespace quire::jinja
