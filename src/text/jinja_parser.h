#pragma once

#include <string_view>

#include "quire/result.h"
#include "text/jinja_ast.h"

namespace quire::jinja {

// Real templates have a few kilobytes, some tens of them. A byte of source makes some 250 B of tree,
// so the longest template takes 64 MB.
inline constexpr std::size_t kMaxTemplateBytes = std::size_t{256} << 10;

// The whole template, or an error that names a line.
Result<Block> parse_template(std::string_view source);

}  // namespace quire::jinja
