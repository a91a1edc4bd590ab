// What JSON text looks like before it is parsed. Text from outside may nest so deep that whoever goes through its
// values runs out of stack, or hold objects of so many members that keeping them in order takes very long: each new
// one is compared with all before it.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace quire {

inline constexpr int kDeepestJson = 64, kWidestJson = 1024;

enum class JsonShape { good, deep, wide };

// Of text that need not be JSON; deep and wide are meant of what a parser would get to.
inline JsonShape json_shape(std::string_view text) {
  int depth = 0;
  std::array<int, kDeepestJson + 1> members{};  // of what is open at each depth
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kDeepestJson) return JsonShape::deep;
      if (depth > 0) members[static_cast<std::size_t>(depth)] = 0;
    } else if (c == ':' && depth > 0) {
      if (++members[static_cast<std::size_t>(depth)] > kWidestJson) return JsonShape::wide;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return JsonShape::good;
}

}  // namespace quire
