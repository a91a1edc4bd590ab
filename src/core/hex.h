// Bytes as people and file names show them.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <string>

namespace quire {

inline std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(b));
  return text;
}

}  // namespace quire
