// Attention for AVX-512 with products of bf16; everything else is avx512.cpp's.
#include "kernels/cpu/isa_kernels.h"
#include "kernels/cpu/simd8.h"
// clang-format off: the file below builds on the two above
#include "kernels/cpu/attention.inl"
// clang-format on

namespace quire {

void attend_in_bf16(const Stretch& stretch, const SoftmaxStates& states) { attend(stretch, states); }

namespace {

void round_queries(const float* q, std::int64_t queries, std::int64_t query_stride, std::uint32_t* to) {
  for (std::int64_t i = 0; i < queries; ++i) {
    make_query_bytes(q + i * query_stride, query_stride, to + i * short_query_words(query_stride));
  }
}

}  // namespace

const ShortQueries kShortQueries{reads_short, round_queries};

}  // namespace quire
