// Formats without scales: every value is an element of its own.
#pragma once

#include <bit>
#include <cstring>

#include "core/half.h"
#include "kv/format/layouts.h"

namespace quire {

struct F32Element {
  using Bits = std::uint32_t;
  static Bits from(float x) { return std::bit_cast<Bits>(x); }
  static float to(Bits bits) { return std::bit_cast<float>(bits); }
};
struct F16Element {
  using Bits = f16_t;
  static Bits from(float x) { return f32_to_f16(x); }
  static float to(Bits bits) { return f16_to_f32(bits); }
};
struct Bf16Element {
  using Bits = bf16_t;
  static Bits from(float x) { return f32_to_bf16(x); }
  static float to(Bits bits) { return bf16_to_f32(bits); }
};

template <class Element>
void write_plain_token(KvOrder order, std::byte* tile, std::int64_t token, const float* values, std::int64_t dim) {
  for (std::int64_t d = 0; d < dim; ++d) {
    const typename Element::Bits bits = Element::from(values[d]);
    std::memcpy(tile + kv_element(order, dim, token, d) * std::int64_t{sizeof bits}, &bits, sizeof bits);
  }
}

template <class Element>
void read_plain_token(KvOrder order, const std::byte* tile, std::int64_t token, std::int64_t dim, float* values) {
  for (std::int64_t d = 0; d < dim; ++d) {
    typename Element::Bits bits;
    std::memcpy(&bits, tile + kv_element(order, dim, token, d) * std::int64_t{sizeof bits}, sizeof bits);
    values[d] = Element::to(bits);
  }
}

template <class Element>
void encode_plain(KvOrder order, const float* rows, std::int64_t dim, std::byte* tile) {
  for (std::int64_t t = 0; t < kPageTokens; ++t) write_plain_token<Element>(order, tile, t, rows + t * dim, dim);
}

template <class Element>
void decode_plain(KvOrder order, const std::byte* tile, std::int64_t dim, float* rows) {
  for (std::int64_t t = 0; t < kPageTokens; ++t) read_plain_token<Element>(order, tile, t, dim, rows + t * dim);
}

}  // namespace quire
