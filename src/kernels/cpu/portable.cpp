// The inner loops for any machine.
#include "kernels/cpu/isa_kernels.h"
#include "kernels/cpu/simd8.h"
// clang-format off: the files below build on the two above
#include "kernels/cpu/attention.inl"
#include "kernels/cpu/matmul.inl"
#include "kernels/cpu/pages.inl"
#include "kernels/cpu/rows.inl"
#include "kernels/cpu/speed.inl"
// clang-format on

namespace quire {

const IsaKernels kPortableKernels{
    quantize_tile, panel_bytes,  pack_panel,     multiply_panels, nullptr,   nullptr,      nullptr,      unpack_row_f32,
    dot_strip_f32, rms_norm_row, layer_norm_row, rope_head,       silu_row,  gelu_row,     store_tokens, attend,
    nullptr,       score,        hadamard_row,   scale_row,       sum_bytes, int8_products};

}  // namespace quire
