// Text from values: Python's two ways to fill in a pattern, and JSON.
#pragma once

#include <optional>
#include <string_view>

#include "quire/result.h"
#include "text/jinja_builtins.h"
#include "text/jinja_value.h"

namespace quire::jinja {

// "%s is %d" % (a, b)
Result<Value> format_percent(std::string_view pattern, const Value& operand, Budget& budget);
// "{} is {name}".format(a, name=b), without format specifications
Result<Value> format_braces(std::string_view pattern, const Args& args, Budget& budget);

struct JsonStyle {
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  std::optional<std::string> indent = {};  // one level; nothing for all on one line
  bool ascii = false;
  bool sort_keys = false;
};
// As Python's json.dumps writes it.
Result<void> write_json(const Value& v, const JsonStyle& style, TextBuilder& out);

}  // namespace quire::jinja
