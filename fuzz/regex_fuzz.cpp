// Any bytes as a regular expression: parsed, and followed if they parse.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "grammar_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed = quire::grammar_of_regex(std::string_view(reinterpret_cast<const char*>(data), size));
  if (parsed.ok()) quire::fuzzing::walk(*parsed, size);
  return 0;
}
