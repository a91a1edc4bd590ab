// The inner loops that exist once per instruction set. portable.cpp, avx2.cpp and avx512.cpp each compile
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
inline constexpr std::int64_t kPanelRows = 16;  // weight rows whose products lie side by side in vectors
inline constexpr std::int64_t kStripRows = 4;   // float weight rows per call

inline constexpr std::int64_t kTileRows = 8;  // activation rows that lie together

// What joined.inl needs to know of rows of bytes. A block's scale is a whole number of steps, so many units.
struct JoinedRows {
  std::int32_t* starts;  // [tiles, pairs of blocks, 2, 8]: what sums of the second, and of the first, start from
  std::int32_t* steps;   // [tiles, pairs of blocks, 8]: of the first in the low 16 bits, of the second in the high ones
  std::int32_t* sums;    // likewise: the sum of bytes, times steps, in 1024ths
  float* unit;           // [tiles, 8]
};

// Rows of activations: x = scale * q, q in [-32767, 32767], or in [-127, 127] as bytes in the order of panels. Tile
// after tile of 8 rows, and in each block after block: what products of a tile read lies together.
struct QuantizedRows {
  std::int16_t* q;          // [tiles, blocks, 8, 32], or null
  std::int8_t* bytes;       // [tiles, blocks, 8, 32], or null
  float* scale;             // [tiles, blocks, 8]
  float* sums;              // [tiles, blocks, 8]: scale times the sum of q over the block; null, as are the next two,
                            // where all weights are joined
  float* half_sums;         // [tiles, blocks, 8, 2]
  std::int32_t* byte_sums;  // [tiles, blocks, 8, 2]: the sum of bytes
  JoinedRows joined;        // the same bytes for products of two blocks at once
  std::int64_t cols;
};

// Panels one after the other, and where their products with rows of activations go.
struct PanelProducts {
  const std::byte* panels;
  std::int64_t outputs;  // weight rows; the last panel need not be full
  const float* bias;     // [outputs], or null
  float* out;            // [rows, stride]
  std::int64_t stride;
  bool add;  // to what is there
};

// What a tile of keys or of values is made of; kv/format/layouts.h says where.
struct TileLayout {
  KvFormat format;
  KvOrder order;
  std::int64_t dim;
  std::int64_t groups;      // scales of a token; 0 where values need none
  std::int64_t group_dims;  // dimensions that share one
  std::int64_t fifth_bits;  // bytes from the tile's start, here and below
  std::int64_t scales;
  std::int64_t zeros;  // 0: the format has none
  std::int64_t bytes;  // the tile
};

// What one KV head has in one page. Both are null where no query looks.
struct PageTiles {
  const std::byte* keys;
  const std::byte* values;
  bool packed;

  bool operator==(const PageTiles&) const = default;
};

struct PageTileLayouts {
  TileLayout keys;
  TileLayout values;
  bool latent;
};

// The same queries as whole numbers: see kv/query_codes.h.
struct QueryCodes {
  const std::int8_t* codes;   // [queries, query_stride], zero beyond; or null where packed keys are not even
  const std::int32_t* pairs;  // [queries, query_stride / 2]: two codes, twice
  const float* scale;         // [queries, query_stride / 32], of products with levels in half steps
  const std::int32_t* sum;    // [queries, query_stride / 32], of the codes
};

// Consecutive pages of one KV head, and the queries that read the same version of each.
struct Stretch {
  PageTileLayouts wide, packed;
  const PageTiles* tiles;  // [pages]
  const PageTiles* ahead;  // [kSpanPages]: what will be read next; or null
  std::int64_t pages;
  std::int64_t begin;  // position of the first page's first token
  const float* q;      // [queries, query_stride], scaled
  QueryCodes query_codes;
  const std::uint32_t* query_bytes;  // [queries, short_query_words()], or null
  const std::int64_t* first;         // [queries]: positions [first, last) are seen, of those in the stretch
  const std::int64_t* last;          // [queries]
  std::int64_t queries;
  std::int64_t query_stride;  // both strides are multiples of 32
  std::int64_t value_stride;
  float softcap;   // 0: none
  float* scratch;  // of stretch_scratch_floats()
};

// The softmax over what was seen so far: sum of exp(score - max), and the same sum weighted by values.
struct SoftmaxStates {
  float* out;  // [queries, value_stride]
  float* max;  // [queries]
  float* sum;  // [queries]; 0 if nothing was seen
};

// Lines of 32 values are what inner loops work on: the 32 tokens of a dimension, or 32 dimensions of a token.
inline constexpr std::int64_t kLine = kPageTokens;
constexpr std::int64_t padded_to_line(std::int64_t dim) { return (dim + kLine - 1) / kLine * kLine; }

inline constexpr int kMaxTogether = 3;  // queries per pass over a tile: 3 x 4 sums fit 16 registers

// Pages whose scores are weighed together: one correction of the sums, and long inner loops. Within a segment.
inline constexpr std::int64_t kSpanPages = 4;
inline constexpr std::int64_t kSpanTokens = kSpanPages * kLine;

inline constexpr std::int64_t kPassFloats = 10;  // what a pass over queries is described by

// Of one tile: lines as they are unpacked, a last one that is not whole, lines turned, scales and zero points by token
// and by group.
constexpr std::int64_t tile_scratch_floats(std::int64_t stride) { return (2 * kLine + 8) * stride + kLine * kLine; }
// Scores of a span; passes; queries and weights of a pass, as scales change them; values of
// a span, keys of a page (turned from rows, twice).
constexpr std::int64_t stretch_scratch_floats(std::int64_t queries, std::int64_t query_stride,
                                              std::int64_t value_stride) {
  return queries * (kSpanTokens + kPassFloats) + 16 + kMaxTogether * (query_stride + kSpanTokens) +
         kSpanPages * tile_scratch_floats(value_stride) + 2 * tile_scratch_floats(query_stride);
}

// Queries as short products read them: see key_bytes.inl.
constexpr std::int64_t short_query_words(std::int64_t query_stride) { return query_stride / 2; }
struct ShortQueries {
  bool (*meet)(const PageTileLayouts& layout);  // whether a page is read so
  void (*round)(const float* q, std::int64_t queries, std::int64_t query_stride, std::uint32_t* to);
};

// Products of bytes with weights of four bits in a layout of their own: see joined.inl.
struct JoinedKernels {
  std::int64_t (*panel_bytes)(DType type, std::int64_t cols);  // 0: not for these
  void (*pack_panel)(DType type, const std::byte* rows, std::int64_t count, std::int64_t cols, std::byte* panel);
  void (*multiply)(DType type, PanelProducts products, QuantizedRows x, std::int64_t rows);
};

struct IsaKernels {
  // x: the first of up to 8 rows, [rows, cols]
  void (*quantize_tile)(const float* x, std::int64_t tile, std::int64_t rows, const QuantizedRows& to);
  // Weights as products read them; panels.inl draws the layout. Rows beyond `count` of kPanelRows are zero.
  std::int64_t (*panel_bytes)(DType type, std::int64_t cols);
  void (*pack_panel)(DType type, const std::byte* rows, std::int64_t count, std::int64_t cols, std::byte* panel);
  void (*multiply_panels)(DType type, PanelProducts products, QuantizedRows x, std::int64_t rows);
  // The same with activations of 8 bits; null where an instruction set gains nothing by them.
  void (*quantize_tile_bytes)(const float* x, std::int64_t tile, std::int64_t rows, const QuantizedRows& to);
  void (*multiply_panels_bytes)(DType type, PanelProducts products, QuantizedRows x, std::int64_t rows);
  const JoinedKernels* joined;  // where it has them; or null
  void (*unpack_row_f32)(DType type, const std::byte* source, std::int64_t cols, float* out);
  // weights: [kStripRows, cols]
  void (*dot_strip_f32)(const float* weights, const float* x, std::int64_t cols, std::int64_t row_begin,
                        std::int64_t row_end, float* out);
  void (*rms_norm_row)(const float* x, const float* weight, float epsilon, std::int64_t dim, float* out);
  void (*layer_norm_row)(const float* x, const float* weight, const float* bias, float epsilon, std::int64_t dim,
                         float* out);
  void (*rope_head)(float* x, const float* cos, const float* sin, std::int64_t half, bool adjacent_pairs);
  void (*silu_row)(const float* gate, const float* up, std::int64_t dim, float* out);
  void (*gelu_row)(const float* gate, const float* up, std::int64_t dim, float* out);
  // Rows of x, x_stride apart, as tokens [token, token + count) of a tile whose format is written by token.
  void (*store_tokens)(const TileLayout& tile_layout, const float* x, std::int64_t x_stride, std::int64_t token,
                       std::int64_t count, std::byte* tile);
  void (*attend)(const Stretch& stretch, const SoftmaxStates& states);
  const ShortQueries* short_queries;  // where it has them; or null
  // sums[pages * 32]: adds exp(score - log_sum_exp) of each query in order.
  void (*score)(const Stretch& stretch, const float* log_sum_exp, float* sums);
  void (*hadamard_row)(float* x, std::int64_t dim);
  void (*scale_row)(const float* x, float factor, std::int64_t dim, float* out);
  // See machine_speed.h.
  std::uint64_t (*sum_bytes)(const std::byte* memory, std::int64_t bytes);
  std::int64_t (*int8_products)(std::int64_t rounds);
};

extern const IsaKernels kPortableKernels;
extern const IsaKernels kAvx2Kernels;
extern const IsaKernels kAvx512Kernels;
extern const IsaKernels kBf16Kernels;  // AVX-512 whose attention multiplies bytes and bf16: short_products.inl

void attend_in_bf16(const Stretch& stretch, const SoftmaxStates& states);
extern const ShortQueries kShortQueries;

}  // namespace quire
