// The inner loops that exist once per instruction set. portable.cpp and avx2.cpp each compile
// the same .inl files with their own flags and fill one table; cpu_ops.cpp chooses a table at run
// time and does the threading. Only plain types here: an inline function shared between files
// compiled with different flags could end up in the program in its AVX2 form only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "kv/view.h"

namespace quire {

// Quantised products work in blocks of 32 columns, each of two halves of 16: the smallest group
// with a scale of its own in any GGUF type (Q2_K, Q3_K, Q6_K).
inline constexpr std::int64_t kBlock = 32;
inline constexpr std::int64_t kStripRows = 4;  // weight rows per call: 4 x 2 accumulators fit 16 registers

constexpr std::int64_t padded_halves(std::int64_t cols) { return (cols / 16 + 7) / 8 * 8; }

// Rows of activations: x = scale * q, q in [-127, 127].
struct QuantizedRows {
  std::int8_t* q;  // [rows, cols]
  float* scale;    // [rows, cols / 32]
  float* sums;     // [rows, padded_halves]: scale times the sum of q over each half, zero beyond
  std::int64_t cols;
};

// Rows of weights: w = scale * q + min. q is unsigned and at most 63 where there are minima, so that
// 16-bit sums of two products cannot saturate; else signed, min is 0 and not stored.
struct UnpackedRows {
  std::uint8_t* q;  // [rows, cols]
  float* scale;     // [rows, padded_halves]
  float* min;       // [rows, padded_halves], zero beyond cols / 16
  std::int64_t cols;
};

// One stretch of cached tokens [begin, end) of one KV head, seen by several queries.
struct AttentionSegment {
  const float* q;                // [queries, padded_dim], scaled, zero beyond head_dim
  const std::int64_t* position;  // [queries]
  std::int64_t queries;
  KvStream keys;    // of this head: head 0 of the stream
  KvStream values;  // likewise
  std::int64_t begin;
  std::int64_t end;
  std::int64_t head_dim;
  std::int64_t padded_dim;  // multiple of 8
  std::int64_t window;      // 0: none
  float softcap;            // 0: none
  float* tile;              // scratch of attention_tile_floats()
  // What comes out: sum of exp(score - max) and the same sum weighted by values; sum 0 if nothing was seen.
  float* out;  // [queries, padded_dim]
  float* max;  // [queries]
  float* sum;  // [queries]
};

inline constexpr std::int64_t kTileTokens = 32;
constexpr std::int64_t attention_tile_floats(std::int64_t padded_dim) { return 2 * kTileTokens * padded_dim; }

struct IsaKernels {
  void (*quantize_row)(const float* x, std::int64_t row, const QuantizedRows& to);
  void (*unpack_row)(DType type, const std::byte* source, std::int64_t row, const UnpackedRows& to);
  // Rows [row_begin, row_end) of x; out: [row_end - row_begin, kStripRows], rows out_stride apart.
  void (*dot_strip)(DType type, const UnpackedRows& weights, std::int64_t strip, const QuantizedRows& x,
                    std::int64_t row_begin, std::int64_t row_end, float* out, std::int64_t out_stride);
  void (*unpack_row_f32)(DType type, const std::byte* source, std::int64_t cols, float* out);
  // weights: [kStripRows, cols]
  void (*dot_strip_f32)(const float* weights, const float* x, std::int64_t cols, std::int64_t row_begin,
                        std::int64_t row_end, float* out, std::int64_t out_stride);
  void (*rms_norm_row)(const float* x, const float* weight, float epsilon, std::int64_t dim, float* out);
  void (*layer_norm_row)(const float* x, const float* weight, const float* bias, float epsilon, std::int64_t dim,
                         float* out);
  void (*silu_row)(const float* gate, const float* up, std::int64_t dim, float* out);
  void (*gelu_row)(const float* gate, const float* up, std::int64_t dim, float* out);
  void (*store_kv)(const float* x, std::int64_t count, KvType type, std::byte* out);
  void (*attend)(const AttentionSegment& segment);
};

extern const IsaKernels kPortableKernels;
extern const IsaKernels kAvx2Kernels;

}  // namespace quire
