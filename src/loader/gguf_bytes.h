// Reading GGUF values out of bytes that are known to be there. Private to the GGUF reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "loader/gguf.h"

namespace quire::gguf_bytes {

inline std::size_t scalar_bytes(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
      return 8;
    case GgufType::string:
    case GgufType::array:
      return 0;
  }
  return 0;
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// Any integer type as a signed 64-bit number; nothing for other types and for u64 beyond its range.
inline std::optional<std::int64_t> load_integer(GgufType type, const std::byte* at) {
  switch (type) {
    case GgufType::u8:
      return load<std::uint8_t>(at);
    case GgufType::i8:
      return load<std::int8_t>(at);
    case GgufType::u16:
      return load<std::uint16_t>(at);
    case GgufType::i16:
      return load<std::int16_t>(at);
    case GgufType::u32:
      return load<std::uint32_t>(at);
    case GgufType::i32:
      return load<std::int32_t>(at);
    case GgufType::i64:
      return load<std::int64_t>(at);
    case GgufType::u64: {
      const auto value = load<std::uint64_t>(at);
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

inline std::optional<double> load_real(GgufType type, const std::byte* at) {
  if (type == GgufType::f32) return static_cast<double>(load<float>(at));
  if (type == GgufType::f64) return load<double>(at);
  return std::nullopt;
}

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace quire::gguf_bytes
