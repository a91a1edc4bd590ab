// Cuts a template into tokens. White space around tags is settled here: `-` and `+` signs, and the
// two options that chat templates are written for, trim_blocks and lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quire/result.h"

namespace quire::jinja {

struct Token {
  enum class Kind {
    data,  // text outside tags
    variable_begin,
    variable_end,
    block_begin,
    block_end,
    name,
    string,
    integer,
    real,
    op,
    end,
  };
  Kind kind;
  int line;
  std::string text;  // with a string's escapes resolved
  std::int64_t integer = 0;
  double real = 0;

  bool is_name(std::string_view s) const { return kind == Kind::name && text == s; }
  bool is_op(std::string_view s) const { return kind == Kind::op && text == s; }
};

// The last token is always `end`.
Result<std::vector<Token>> tokenize(std::string_view source);

// "line 3: what is wrong"
Error syntax_error(int line, std::string_view what);

}  // namespace quire::jinja
