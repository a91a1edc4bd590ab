// Any bytes as a JSON schema: parsed, and followed to a text that must be JSON if they parse.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "grammar_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed = quire::grammar_of_schema(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!parsed.ok()) return 0;
  const std::string text = quire::fuzzing::walk(*parsed, size);
  quire::fuzzing::require(text.empty() || nlohmann::json::accept(text));
  return 0;
}
