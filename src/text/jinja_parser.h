#pragma once

#include <string_view>

#include "quire/result.h"
#include "text/jinja_ast.h"

namespace quire::jinja {

// Real templates are a few kilobytes; the longest known stay under 100.
inline constexpr std::size_t kMaxTemplateBytes = std::size_t{1} << 20;

// The whole template, or an error that names a line.
Result<Block> parse_template(std::string_view source);

}  // namespace quire::jinja
