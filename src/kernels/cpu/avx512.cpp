// The inner loops for AVX-512 with VNNI: products of weights, and keys of four bits, in vectors of 512 bits, multiplied
// and added by one instruction; the rest in 256 bits.
#include "kernels/cpu/isa_kernels.h"
#include "kernels/cpu/simd8.h"
// clang-format off: the files below build on the two above
#include "kernels/cpu/attention.inl"
#include "kernels/cpu/joined.inl"
#include "kernels/cpu/pages.inl"
#include "kernels/cpu/rows.inl"
#include "kernels/cpu/speed.inl"
// clang-format on

namespace quire {

namespace {

constexpr IsaKernels table(decltype(IsaKernels::attend) attends, const ShortQueries* queries) {
  return {quantize_tile,
          panel_bytes,
          pack_panel,
          multiply_panels,
          quantize_tile_bytes,
          multiply_panels_bytes,
          &kJoinedKernels,
          unpack_row_f32,
          dot_strip_f32,
          rms_norm_row,
          layer_norm_row,
          rope_head,
          silu_row,
          gelu_row,
          store_tokens,
          attends,
          queries,
          score,
          hadamard_row,
          scale_row,
          sum_bytes,
          int8_products};
}

}  // namespace

const IsaKernels kAvx512Kernels = table(attend, nullptr);
const IsaKernels kBf16Kernels = table(attend_in_bf16, &kShortQueries);

}  // namespace quire
