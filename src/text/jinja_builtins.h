// Filters, tests and methods, by name.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quire/result.h"
#include "text/jinja_value.h"

namespace quire::jinja {

struct Args {
  std::vector<Value> positional = {};
  std::vector<std::pair<std::string, Value>> named = {};
};

Result<Value> call_filter(std::string_view name, const Value& subject, const Args& args, Budget& budget);
Result<bool> call_test(std::string_view name, const Value& subject, const Args& args, Budget& budget);
Result<Value> call_method(const Value& self, std::string_view name, const Args& args, Budget& budget);

// Whether Python's type has a method of that name. One that changes its object is refused, as in
// the immutable sandbox that chat templates are run in elsewhere.
enum class MethodAccess { absent, allowed, refused };
MethodAccess method_access(const Value& v, std::string_view name);

// range(), dict() and the other functions that need no interpreter; null if there is none.
using Function = Result<Value> (*)(const Args& args, Budget& budget);
Function find_function(std::string_view name);

// --- For the files that implement them ---

using Filter = Result<Value> (*)(const Value& subject, const Args& args, Budget& budget);
struct NamedFilter {
  std::string_view name;
  Filter filter;
};
Filter find_text_filter(std::string_view name);
Filter find_sequence_filter(std::string_view name);

// Arguments by parameter, null where none was given.
using Bound = std::vector<const Value*>;
Result<Bound> bind(std::string_view function, const Args& args, std::initializer_list<std::string_view> parameters,
                   std::size_t required = 0);
Result<std::string_view> need_text(const Value* v, std::string_view function);
Result<std::int64_t> integer_or(const Value* v, std::int64_t fallback, std::string_view function);
bool given(const Value* v);  // neither missing nor None
// What reading the texts of a call costs, whatever it then does with them.
void pay_for(const Value& subject, const Args& args, Budget& budget);

// A value inside `subject`, by a path such as "function.name" or by an index.
Result<Value> get_path(const Value& subject, const Value& path, const Value* fallback, Budget& budget);

}  // namespace quire::jinja
