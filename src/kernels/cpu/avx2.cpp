// The inner loops for AVX2 with FMA and F16C.
#include "kernels/cpu/isa_kernels.h"
#include "kernels/cpu/simd8.h"
// clang-format off: the files below build on the two above
#include "kernels/cpu/attention.inl"
#include "kernels/cpu/rows.inl"
#include "kernels/cpu/unpack.inl"
// clang-format on

namespace quire {
namespace {

QUIRE_INLINE __m256i load32(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }

// One weight block's scale in every lane; lanes 0 to 3 sum the first half, 4 to 7 the second.
template <bool kHalves>
QUIRE_INLINE F8 block_scale(const float* scale) {
  if constexpr (kHalves) {
    return _mm256_set_m128(_mm_broadcast_ss(scale + 1), _mm_broadcast_ss(scale));
  } else {
    return _mm256_broadcast_ss(scale);
  }
}

template <bool kSigned, bool kHalves, int kRows>
QUIRE_INLINE void dot_rows(const UnpackedRows& weights, std::int64_t strip, const QuantizedRows& x, std::int64_t row,
                           float* out, std::int64_t out_stride) {
  const std::int64_t cols = weights.cols, blocks = cols / kBlock, halves = padded_halves(cols);
  const std::uint8_t* w = weights.q + strip * cols;
  const float* w_scale = weights.scale + strip * halves;
  const std::int8_t* xq = x.q + row * cols;
  const float* x_scale = x.scale + row * blocks;
  const __m256i ones = _mm256_set1_epi16(1);

  F8 sums[kStripRows][kRows] = {};
  for (std::int64_t b = 0; b < blocks; ++b) {
    __m256i xv[kRows];
    F8 xs[kRows];
    for (int r = 0; r < kRows; ++r) {
      xv[r] = load32(xq + r * cols + b * kBlock);
      xs[r] = _mm256_broadcast_ss(x_scale + r * blocks + b);
    }
    for (int n = 0; n < kStripRows; ++n) {
      const __m256i wv = load32(w + n * cols + b * kBlock);
      const F8 ws = block_scale<kHalves>(w_scale + n * halves + 2 * b);
      for (int r = 0; r < kRows; ++r) {
        // Pairs of products in 16 bits: at most 2 * 63 * 127, or 2 * 128 * 127 when signed; neither saturates.
        const __m256i pairs = kSigned ? _mm256_maddubs_epi16(_mm256_abs_epi8(wv), _mm256_sign_epi8(xv[r], wv))
                                      : _mm256_maddubs_epi16(wv, xv[r]);
        const F8 dot = _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, ones));
        sums[n][r] = fma(dot, ws * xs[r], sums[n][r]);
      }
    }
  }
  if constexpr (!kSigned) {
    for (std::int64_t h = 0; h < halves; h += 8) {
      for (int n = 0; n < kStripRows; ++n) {
        const F8 min = load8(weights.min + (strip + n) * halves + h);
        for (int r = 0; r < kRows; ++r) {
          sums[n][r] = fma(min, load8(x.sums + (row + r) * halves + h), sums[n][r]);
        }
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int n = 0; n < kStripRows; ++n) out[r * out_stride + n] = horizontal_sum(sums[n][r]);
  }
}

template <bool kSigned, bool kHalves>
void dot_all_rows(const UnpackedRows& weights, std::int64_t strip, const QuantizedRows& x, std::int64_t row_begin,
                  std::int64_t row_end, float* out, std::int64_t out_stride) {
  std::int64_t r = row_begin;
  for (; r + 2 <= row_end; r += 2) {
    dot_rows<kSigned, kHalves, 2>(weights, strip, x, r, out + (r - row_begin) * out_stride, out_stride);
  }
  if (r < row_end) dot_rows<kSigned, kHalves, 1>(weights, strip, x, r, out + (r - row_begin) * out_stride, out_stride);
}

void dot_strip(DType type, const UnpackedRows& weights, std::int64_t strip, const QuantizedRows& x,
               std::int64_t row_begin, std::int64_t row_end, float* out, std::int64_t out_stride) {
  if (is_signed(type)) {
    dot_all_rows<true, false>(weights, strip, x, row_begin, row_end, out, out_stride);
  } else if (has_half_scales(type)) {
    dot_all_rows<false, true>(weights, strip, x, row_begin, row_end, out, out_stride);
  } else {
    dot_all_rows<false, false>(weights, strip, x, row_begin, row_end, out, out_stride);
  }
}

}  // namespace

const IsaKernels kAvx2Kernels{quantize_row,   unpack_row, dot_strip, unpack_row_f32, dot_strip_f32, rms_norm_row,
                              layer_norm_row, silu_row,   gelu_row,  store_kv,       attend};

}  // namespace quire
