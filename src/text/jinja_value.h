// The values a chat template computes with: Python's, as far as templates can see them.
// They are immutable once built, except namespaces, which the interpreter owns, and what loops and
// generators remember of their progress.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja_budget.h"

namespace quire::jinja {

struct Sequence;
struct Dict;
struct Namespace;
struct Callable;
struct Loop;

using Text = std::shared_ptr<const std::string>;  // UTF-8
using SequenceRef = std::shared_ptr<const Sequence>;
using DictRef = std::shared_ptr<const Dict>;
using CallableRef = std::shared_ptr<const Callable>;
using LoopRef = std::shared_ptr<const Loop>;

struct Undefined {
  Text name;  // what was looked for, null where nothing was
};
struct None {};

struct Value {
  // A namespace is not owned: values that own it could form a cycle, `ns.self = ns`.
  using Data = std::variant<Undefined, None, bool, std::int64_t, double, Text, SequenceRef, DictRef, Namespace*,
                            CallableRef, LoopRef>;
  Data data;

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(data);
  }
  const std::string* text() const { return pointee<Text>(); }
  const Sequence* sequence() const { return pointee<SequenceRef>(); }
  const Dict* dict() const { return pointee<DictRef>(); }
  const Callable* callable() const { return pointee<CallableRef>(); }
  const Loop* loop() const { return pointee<LoopRef>(); }
  Namespace* name_space() const { return is<Namespace*>() ? std::get<Namespace*>(data) : nullptr; }
  // Booleans are integers, as in Python.
  std::optional<std::int64_t> integer() const;
  std::optional<double> number() const;

 private:
  template <class Ref>
  auto pointee() const -> decltype(std::get<Ref>(data).get()) {
    return is<Ref>() ? std::get<Ref>(data).get() : nullptr;
  }
};

inline Value none() { return {None{}}; }
inline Value boolean(bool b) { return {b}; }
inline Value integer(std::int64_t i) { return {i}; }
inline Value real(double d) { return {d}; }
Value text(std::string_view s);
Value undefined(std::string_view name = {});

enum class SequenceKind {
  list,
  tuple,
  range,
  keys,
  values,
  items,
  generator,  // what map, select and their like give: can be iterated once, has no length
};

struct Sequence {
  SequenceKind kind;
  std::vector<Value> items;
  int depth = 1;                  // containers inside each other, this one included
  bool hashable = false;          // may be a key of a dict
  std::string label = {};         // how a range prints
  mutable bool consumed = false;  // a generator's, once iterated
};

struct Dict {
  std::vector<std::pair<Value, Value>> entries;  // in order of insertion
  int depth = 1;
};

struct Namespace {
  std::map<std::string, Value, std::less<>> attributes;
};

struct MacroBody;

struct Callable {
  enum class Kind { macro, global, method, cycle };
  Kind kind;
  std::string name;
  Value self = {};                   // of a method, or the loop of a cycle
  const MacroBody* macro = nullptr;  // in the syntax tree
  int depth = 1;
};

struct Loop {
  std::vector<Value> items;
  mutable std::size_t index = 0;  // from 0; templates see it move
  int depth = 1;
};

// Containers nest to a limit, so that no recursion over a value can exhaust the stack; past it the
// budget is exhausted and the result is undefined.
inline constexpr int kMaxValueDepth = 128;
Value sequence(std::vector<Value> items, SequenceKind kind, Budget& budget, std::string label = {});
inline Value list(std::vector<Value> items, Budget& budget) {
  return sequence(std::move(items), SequenceKind::list, budget);
}
inline Value tuple(std::vector<Value> items, Budget& budget) {
  return sequence(std::move(items), SequenceKind::tuple, budget);
}
inline Value generator(std::vector<Value> items, Budget& budget) {
  return sequence(std::move(items), SequenceKind::generator, budget);
}
Value dict(std::vector<std::pair<Value, Value>> entries, Budget& budget);
Value callable(Callable c, Budget& budget);
Value loop_object(Loop loop, Budget& budget);

// Of a value's type, as Python calls it, for messages.
std::string_view type_name(const Value& v);
bool truthy(const Value& v);
bool equal(const Value& a, const Value& b, Budget& budget);
const Value* find(const Dict& d, const Value& key, Budget& budget);
const Value* find(const Dict& d, std::string_view key, Budget& budget);
inline bool hashable(const Value& v) { return v.sequence() ? v.sequence()->hashable : !v.dict(); }

// str() and repr() of Python. A value that has no printable form that is the same in every run
// (a generator, a method) fails.
Result<void> write_str(const Value& v, TextBuilder& out);
Result<void> write_repr(const Value& v, TextBuilder& out);
Result<std::string> to_str(const Value& v, Budget& budget);
std::string float_repr(double d);

}  // namespace quire::jinja
