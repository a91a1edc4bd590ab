// The inner loops for any machine.
#include "kernels/cpu/isa_kernels.h"
#include "kernels/cpu/simd8.h"
// clang-format off: the files below build on the two above
#include "kernels/cpu/attention.inl"
#include "kernels/cpu/rows.inl"
#include "kernels/cpu/unpack.inl"
// clang-format on

namespace quire {
namespace {

template <class Weight>
QUIRE_INLINE float dot_row(const Weight* w, const float* scale, const float* min, const std::int8_t* x,
                           const float* x_scale, const float* sums, std::int64_t cols) {
  float total = 0;
  for (std::int64_t h = 0; h < cols / 16; ++h) {
    std::int32_t dot = 0;
    for (int i = 0; i < 16; ++i) dot += static_cast<std::int32_t>(w[16 * h + i]) * x[16 * h + i];
    total += scale[h] * x_scale[h / 2] * static_cast<float>(dot);
    if (min != nullptr) total += min[h] * sums[h];
  }
  return total;
}

void dot_strip(DType type, const UnpackedRows& weights, std::int64_t strip, const QuantizedRows& x,
               std::int64_t row_begin, std::int64_t row_end, float* out, std::int64_t out_stride) {
  const std::int64_t cols = weights.cols, halves = padded_halves(cols);
  for (std::int64_t r = row_begin; r < row_end; ++r) {
    const std::int8_t* xq = x.q + r * cols;
    const float* x_scale = x.scale + r * (cols / kBlock);
    const float* sums = x.sums + r * halves;
    for (std::int64_t n = 0; n < kStripRows; ++n) {
      const std::int64_t row = strip + n;
      const std::uint8_t* w = weights.q + row * cols;
      const float* scale = weights.scale + row * halves;
      out[(r - row_begin) * out_stride + n] =
          is_signed(type) ? dot_row(reinterpret_cast<const std::int8_t*>(w), scale, nullptr, xq, x_scale, sums, cols)
                          : dot_row(w, scale, weights.min + row * halves, xq, x_scale, sums, cols);
    }
  }
}

}  // namespace

const IsaKernels kPortableKernels{quantize_row,   unpack_row, dot_strip, unpack_row_f32, dot_strip_f32, rms_norm_row,
                                  layer_norm_row, silu_row,   gelu_row,  store_kv,       attend};

}  // namespace quire
