// How kernels see a cache: plain pointers and strides, no owner. Whoever lends a view keeps
// the memory alive and says how many tokens of it are valid; the rest may hold anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace quire {

enum class KvType { f16, f32 };

constexpr std::int64_t bytes_per_value(KvType type) { return type == KvType::f16 ? 2 : 4; }

// Value d of head h at position p is value number h * head_stride + p * token_stride + d.
struct KvStream {
  std::byte* data;
  KvType type;
  std::int64_t head_stride;   // in values
  std::int64_t token_stride;  // in values

  std::byte* at(std::int64_t head, std::int64_t position) const {
    return data + (head * head_stride + position * token_stride) * bytes_per_value(type);
  }
};

struct KvLayerView {
  KvStream keys;
  KvStream values;
};

struct KvView {
  std::span<const KvLayerView> layers;  // [cache layers]
  std::int64_t capacity;                // positions that may be written
};

}  // namespace quire
