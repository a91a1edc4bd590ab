// How kernels see a cache: plain pointers and strides, no owner. Whoever lends a view keeps
// the memory alive and says how many tokens of it are valid; the rest may hold anything.
#pragma once

#include <cstdint>
#include <span>

#include "core/half.h"

namespace quire {

// One layer. Value d of head h at position p is at [h * head_stride + p * token_stride + d].
struct KvLayerView {
  f16_t* keys;
  f16_t* values;
  std::int64_t head_stride;
  std::int64_t token_stride;
};

struct KvView {
  std::span<const KvLayerView> layers;  // [cache layers]
  std::int64_t capacity;                // positions that may be written
};

}  // namespace quire
