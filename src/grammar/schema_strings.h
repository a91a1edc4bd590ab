// The formats of strings that schemas name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire::grammar {

// A regular expression for strings of a format, perhaps not for all of them. Nothing for an unknown name.
std::optional<std::string> pattern_of_format(std::string_view format);

}  // namespace quire::grammar
