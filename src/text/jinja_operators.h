// What the operators of the template language do, with Python's rules.
#pragma once

#include <compare>
#include <string_view>
#include <vector>

#include "quire/result.h"
#include "text/jinja_ast.h"
#include "text/jinja_value.h"

namespace quire::jinja {

// Arithmetic and string concatenation: every operator that makes a new value.
Result<Value> arithmetic(Operator op, const Value& a, const Value& b, Budget& budget);
Result<Value> negate(const Value& v);
// Comparison and membership.
Result<bool> compare(Operator op, const Value& a, const Value& b, Budget& budget);
Result<std::partial_ordering> order(const Value& a, const Value& b, Budget& budget);

// v.name: a method or an entry of that name, undefined if there is neither.
Result<Value> get_attribute(const Value& v, std::string_view name, Budget& budget);
// v[key]: the other way round.
Result<Value> get_item(const Value& v, const Value& key, Budget& budget);
// v[start:stop:step]; None stands for a bound left out.
Result<Value> get_slice(const Value& v, const Value& start, const Value& stop, const Value& step, Budget& budget);

// What a loop over the value sees: elements, keys or characters.
Result<std::vector<Value>> iterate(const Value& v, Budget& budget);
Result<std::int64_t> length(const Value& v, Budget& budget);

void insert(std::vector<std::pair<Value, Value>>& entries, Value key, Value value, Budget& budget);

// The error for using an undefined value.
Error undefined_error(const Value& v);

}  // namespace quire::jinja
