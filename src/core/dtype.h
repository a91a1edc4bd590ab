// Element types of stored tensors, with GGUF's numbers. Quantised types come in blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace quire {

enum class DType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq4_nl = 20,
  iq4_xs = 23,
  bf16 = 30,
};

struct DTypeInfo {
  DType type;
  std::string_view name;      // as GGUF tools spell it
  std::uint32_t block_size;   // values per block
  std::uint32_t block_bytes;  // bytes per block
};

// Nothing for a number that is no type, or a type this build does not read.
std::optional<DTypeInfo> find_dtype(std::uint32_t gguf_number);
// What a number that find_dtype does not know is called, "unknown" if nobody knows it.
std::string_view unsupported_dtype_name(std::uint32_t gguf_number);

const DTypeInfo& info(DType type);

}  // namespace quire
