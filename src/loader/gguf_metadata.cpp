// Typed access to what Gguf::parse has found.
#include <array>
#include <cstring>

#include "core/fail.h"
#include "loader/gguf.h"
#include "loader/gguf_bytes.h"

namespace quire {

using gguf_bytes::load;
using gguf_bytes::load_integer;
using gguf_bytes::load_real;
using gguf_bytes::scalar_bytes;
using gguf_bytes::text_of;

std::string_view name(GgufType type) {
  constexpr std::array<std::string_view, 13> kNames{"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                    "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<std::size_t>(type)];
}

const GgufTensor* Gguf::find_tensor(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

Result<const Gguf::Value*> Gguf::find(std::string_view key, std::string_view expected) const {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    return fail(Errc::bad_file, "{}: key '{}' is missing; expected {}", file_name_, key, expected);
  }
  return &found->second;
}

Error Gguf::wrong_type(std::string_view key, const Value& value, std::string_view expected) const {
  if (value.type == GgufType::array) {
    return fail(Errc::bad_file, "{}: key '{}' is an array of {}; expected {}", file_name_, key, name(value.element),
                expected);
  }
  return fail(Errc::bad_file, "{}: key '{}' is {} {}; expected {}", file_name_, key, name(value.type), show(key),
              expected);
}

Result<std::uint64_t> Gguf::integer(std::string_view key, std::uint64_t at_most) const {
  const std::string expected = fmt::format("an integer from 0 to {}", at_most);
  QUIRE_TRY(const Value* value, find(key, expected));
  if (value->type == GgufType::array) return wrong_type(key, *value, expected);
  const auto number = load_integer(value->type, value->bytes.data());
  if (!number || *number < 0 || static_cast<std::uint64_t>(*number) > at_most) {
    return wrong_type(key, *value, expected);
  }
  return static_cast<std::uint64_t>(*number);
}

Result<double> Gguf::real(std::string_view key) const {
  QUIRE_TRY(const Value* value, find(key, "a float"));
  if (value->type == GgufType::array) return wrong_type(key, *value, "a float");
  if (const auto number = load_real(value->type, value->bytes.data())) return *number;
  return wrong_type(key, *value, "a float");
}

Result<bool> Gguf::boolean(std::string_view key) const {
  QUIRE_TRY(const Value* value, find(key, "a bool"));
  if (value->type != GgufType::boolean) return wrong_type(key, *value, "a bool");
  return value->bytes[0] != std::byte{0};
}

Result<std::string_view> Gguf::string(std::string_view key) const {
  QUIRE_TRY(const Value* value, find(key, "a string"));
  if (value->type != GgufType::string) return wrong_type(key, *value, "a string");
  return text_of(value->bytes.subspan(8));
}

Result<std::vector<std::string_view>> Gguf::strings(std::string_view key) const {
  QUIRE_TRY(const Value* value, find(key, "an array of strings"));
  if (value->type != GgufType::array || value->element != GgufType::string) {
    return wrong_type(key, *value, "an array of strings");
  }
  std::vector<std::string_view> texts;
  texts.reserve(static_cast<std::size_t>(value->count));
  // read_metadata() walked these lengths already: they are inside the file.
  for (std::size_t at = 0; texts.size() < value->count;) {
    const auto length = static_cast<std::size_t>(load<std::uint64_t>(value->bytes.data() + at));
    texts.push_back(text_of(value->bytes.subspan(at + 8, length)));
    at += 8 + length;
  }
  return texts;
}

Result<std::vector<std::int64_t>> Gguf::integers(std::string_view key) const {
  QUIRE_TRY(const Value* value, find(key, "an array of integers"));
  if (value->type != GgufType::array) return wrong_type(key, *value, "an array of integers");
  const GgufType element = value->element == GgufType::boolean ? GgufType::u8 : value->element;
  std::vector<std::int64_t> numbers;
  const std::size_t width = scalar_bytes(element);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const auto number = load_integer(element, value->bytes.data() + i * width);
    if (!number) return wrong_type(key, *value, "an array of integers");
    numbers.push_back(*number);
  }
  return numbers;
}

Result<std::vector<float>> Gguf::floats(std::string_view key) const {
  QUIRE_TRY(const Value* value, find(key, "an array of f32"));
  if (value->type != GgufType::array || value->element != GgufType::f32) {
    return wrong_type(key, *value, "an array of f32");
  }
  std::vector<float> numbers(static_cast<std::size_t>(value->count));
  if (!numbers.empty()) std::memcpy(numbers.data(), value->bytes.data(), value->bytes.size());
  return numbers;
}

std::string Gguf::show(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return "";
  const Value& value = found->second;
  if (value.type == GgufType::array) return fmt::format("[{} x {}]", value.count, name(value.element));
  if (value.type == GgufType::string) {
    constexpr std::size_t kShown = 60;
    const std::string_view text = text_of(value.bytes.subspan(8));
    return fmt::format("{:?}{}", text.substr(0, kShown), text.size() > kShown ? "..." : "");
  }
  if (value.type == GgufType::boolean) return value.bytes[0] != std::byte{0} ? "true" : "false";
  if (const auto number = load_integer(value.type, value.bytes.data())) return fmt::format("{}", *number);
  if (const auto number = load_real(value.type, value.bytes.data())) return fmt::format("{:g}", *number);
  return fmt::format("{}", load<std::uint64_t>(value.bytes.data()));
}

}  // namespace quire
