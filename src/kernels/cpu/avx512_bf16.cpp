// Attention for AVX-512 with products of bf16; everything else is avx512.cpp's.
#include "kernels/cpu/isa_kernels.h"
#include "kernels/cpu/simd8.h"
// clang-format off: the file below builds on the two above
#include "kernels/cpu/attention.inl"
// clang-format on

namespace quire {

void attend_in_bf16(const Stretch& stretch, const SoftmaxStates& states) { attend(stretch, states); }
bool rounds_queries_in_bf16(const PageTileLayouts& wide, const PageTileLayouts& packed) {
  return reads_short(wide) && reads_short(packed);
}

}  // namespace quire
