#include "core/dtype.h"

#include <array>

#include "core/check.h"

namespace quire {
namespace {

// Bytes are written as the sum of a block's fields: 2 is an f16 scale or minimum.
constexpr std::array<DTypeInfo, 15> kTypes{{
    {DType::f32, "F32", 1, 4},
    {DType::f16, "F16", 1, 2},
    {DType::q4_0, "Q4_0", 32, 2 + 16},
    {DType::q4_1, "Q4_1", 32, 2 + 2 + 16},
    {DType::q5_0, "Q5_0", 32, 2 + 4 + 16},
    {DType::q5_1, "Q5_1", 32, 2 + 2 + 4 + 16},
    {DType::q8_0, "Q8_0", 32, 2 + 32},
    {DType::q2_k, "Q2_K", 256, 16 + 64 + 2 + 2},
    {DType::q3_k, "Q3_K", 256, 32 + 64 + 12 + 2},
    {DType::q4_k, "Q4_K", 256, 2 + 2 + 12 + 128},
    {DType::q5_k, "Q5_K", 256, 2 + 2 + 12 + 32 + 128},
    {DType::q6_k, "Q6_K", 256, 128 + 64 + 16 + 2},
    {DType::iq4_nl, "IQ4_NL", 32, 2 + 16},
    {DType::iq4_xs, "IQ4_XS", 256, 2 + 2 + 4 + 128},
    {DType::bf16, "BF16", 1, 2},
}};

struct NamedNumber {
  std::uint32_t number;
  std::string_view name;
};
constexpr std::array<NamedNumber, 19> kKnownButUnsupported{{
    {9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {21, "IQ3_S"},
    {22, "IQ2_S"}, {24, "I8"},    {25, "I16"},     {26, "I32"},    {27, "I64"},     {28, "F64"},   {29, "IQ1_M"},
    {34, "TQ1_0"}, {35, "TQ2_0"}, {39, "MXFP4"},   {40, "NVFP4"},  {41, "Q1_0"},
}};

}  // namespace

std::optional<DTypeInfo> find_dtype(std::uint32_t gguf_number) {
  for (const DTypeInfo& t : kTypes) {
    if (static_cast<std::uint32_t>(t.type) == gguf_number) return t;
  }
  return std::nullopt;
}

std::string_view unsupported_dtype_name(std::uint32_t gguf_number) {
  for (const NamedNumber& t : kKnownButUnsupported) {
    if (t.number == gguf_number) return t.name;
  }
  return "unknown";
}

const DTypeInfo& info(DType type) {
  for (const DTypeInfo& t : kTypes) {
    if (t.type == type) return t;
  }
  QUIRE_ASSERT(false, "a DType outside the table");
  return kTypes[0];
}

}  // namespace quire
