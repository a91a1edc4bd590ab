// Products of activations with quantised weights, in integers within each block of 32 columns. Weights
// come unpacked, for several rows of activations, or as the file packs them, for one: the same sums in the
// same order, so the same bits.
#include "kernels/cpu/unpack.inl"

namespace quire {
namespace {

// Written out for small blocks, so that compilers keep codes in registers from unpacking to product.
template <class F, class Body>
QUIRE_INLINE void for_strip_rows(Body&& body) {
  if constexpr (F::kValues == kBlock) {
    static_assert(kStripRows == 4);
    body(0);
    body(1);
    body(2);
    body(3);
  } else {
    for (int n = 0; n < kStripRows; ++n) body(n);
  }
}

template <int kRows>
using StripSums = F8[kStripRows][kRows];

// Block b of kRows rows of activations.
template <int kRows>
struct XBlock {
  S16 low[kRows], high[kRows];
  F8 scale[kRows];
};
template <int kRows>
QUIRE_INLINE XBlock<kRows> load_x(const QuantizedRows& x, std::int64_t row, std::int64_t b) {
  XBlock<kRows> block;
  for (int r = 0; r < kRows; ++r) {
    const std::int16_t* q = x.q + (row + r) * x.cols + b * kBlock;
    block.low[r] = load16(q);
    block.high[r] = load16(q + 16);
    block.scale[r] = broadcast_at(x.scale + (row + r) * (x.cols / kBlock) + b);
  }
  return block;
}

// Adds the products of 32 weights; scale: of each half.
template <class F, int kRows>
QUIRE_INLINE void add_products(const std::int16_t* codes, F8 scale, F8 second_scale, const XBlock<kRows>& x,
                               F8 (&sums)[kRows]) {
  const S16 low = load16(codes), high = load16(codes + 16);
  for (int r = 0; r < kRows; ++r) {
    // At most 4 products of 128 and 32767 in a lane: below 2^24, so the floats are exact too.
    const I8 first = multiply_pairs(low, x.low[r]), second = multiply_pairs(high, x.high[r]);
    if constexpr (F::kHalfScales) {
      sums[r] = fma(to_floats(first), scale * x.scale[r], sums[r]);
      sums[r] = fma(to_floats(second), second_scale * x.scale[r], sums[r]);
    } else {
      sums[r] = fma(to_floats(first + second), scale * x.scale[r], sums[r]);
    }
  }
}

// min: [kStripRows, padded_halves]
template <class F, int kRows>
QUIRE_INLINE void finish_rows(const float* min, const QuantizedRows& x, std::int64_t row, StripSums<kRows>& sums,
                              float* out) {
  const std::int64_t halves = padded_halves(x.cols);
  for (std::int64_t h = 0; F::kMinima && h < halves; h += 8) {
    for (int n = 0; n < kStripRows; ++n) {
      const F8 m = load8(min + n * halves + h);
      for (int r = 0; r < kRows; ++r) sums[n][r] = fma(m, load8(x.sums + (row + r) * halves + h), sums[n][r]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int n = 0; n < kStripRows; ++n) out[r * kStripRows + n] = horizontal_sum(sums[n][r]);
  }
}

template <class F, int kRows>
QUIRE_INLINE void dot_unpacked(const UnpackedStrip& weights, const QuantizedRows& x, std::int64_t row, float* out) {
  constexpr int kGroups = F::kValues / kBlock;
  const auto* blocks = reinterpret_cast<const UnpackedBlock<F>*>(weights.blocks);
  StripSums<kRows> sums = {};
  for (std::int64_t i = 0; i < x.cols / F::kValues; ++i) {
    for (int g = 0; g < kGroups; ++g) {
      const auto xs = load_x<kRows>(x, row, i * kGroups + g);
      for (int n = 0; n < kStripRows; ++n) {
        const float* scale = blocks[i].scale[n] + 2 * g;
        add_products<F, kRows>(blocks[i].codes[n] + g * kBlock, broadcast_at(scale), broadcast_at(scale + 1), xs,
                               sums[n]);
      }
    }
  }
  finish_rows<F, kRows>(weights.min, x, row, sums, out);
}

template <class F>
QUIRE_INLINE void dot_one_packed(const std::byte* const* weights, float* min, const QuantizedRows& x, float* out) {
  constexpr int kGroups = F::kValues / kBlock;
  const std::int64_t blocks = x.cols / F::kValues, halves = padded_halves(x.cols);
  StripSums<1> sums = {};
  for (std::int64_t i = 0; i < blocks; ++i) {
    std::int16_t codes[kStripRows][F::kValues];
    float scale[kStripRows][F::kValues / 16];
    for_strip_rows<F>([&](int n) __attribute__((always_inline)) {
      const auto* source = reinterpret_cast<const std::uint8_t*>(weights[n]) + i * F::kBytes;
      __builtin_prefetch(source + kStripRows * blocks * F::kBytes);  // the next strip
      F::unpack(source, codes[n], scale[n], min + n * halves + i * (F::kValues / 16));
    });
    for (int g = 0; g < kGroups; ++g) {
      const auto xs = load_x<1>(x, 0, i * kGroups + g);
      for_strip_rows<F>([&](int n) __attribute__((always_inline)) {
        const float* s = scale[n] + 2 * g;
        add_products<F, 1>(codes[n] + g * kBlock, broadcast(s[0]), broadcast(s[1]), xs, sums[n]);
      });
    }
  }
  finish_rows<F, 1>(min, x, 0, sums, out);
}

// x by value: its fields stay in registers, which they would not if a store could change them.
void dot_strip(DType type, const UnpackedStrip& weights, QuantizedRows x, std::int64_t row_begin, std::int64_t row_end,
               float* out) {
  with_format(type, [=]<class F>(F) {
    float* to = out;
    std::int64_t r = row_begin;
    for (; r + 2 <= row_end; r += 2, to += 2 * kStripRows) dot_unpacked<F, 2>(weights, x, r, to);
    if (r < row_end) dot_unpacked<F, 1>(weights, x, r, to);
  });
}

void dot_packed(DType type, const std::byte* const* weights, float* min, QuantizedRows x, float* out) {
  clear_padding(min, x.cols);
  with_format(type, [=]<class F>(F) { dot_one_packed<F>(weights, min, x, out); });
}

}  // namespace
}  // namespace quire
