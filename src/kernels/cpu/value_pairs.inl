// Weighted sums of values of f16: weights and values are multiplied in bf16, the 16 bits of two tokens side by side,
// and added up in floats.
#include "kernels/cpu/value_bytes.inl"

namespace quire {
namespace {

#if defined(__AVX512BF16__)

// Lane i: a[i] and b[i], rounded.
QUIRE_INLINE __m512i pairs_of(__m512 a, __m512 b) {
  const __m512i half = _mm512_set1_epi32(0x8000);
  const __m512i low = _mm512_srli_epi32(_mm512_add_epi32(_mm512_castps_si512(a), half), 16);
  return _mm512_mask_blend_epi16(0xAAAAAAAAu, low, _mm512_add_epi32(_mm512_castps_si512(b), half));
}
QUIRE_INLINE __m512 add_products(__m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

// [16, dim]: of the page's tokens [first, last), zero beside them, whatever memory holds there.
void make_value_pairs(const std::byte* tile, std::int64_t dim, std::int64_t first, std::int64_t last,
                      std::uint32_t* pairs) {
  for (std::int64_t t = 0; t < kLine; t += 2, tile += 4 * dim, pairs += dim) {
    const bool has_first = t >= first && t < last, has_second = t + 1 >= first && t + 1 < last;
    for (std::int64_t d = 0; d < dim; d += 16) {
      const __m512 zero = _mm512_setzero_ps();
      _mm512_store_si512(pairs + d, pairs_of(has_first ? floats_of_f16(tile + 2 * d) : zero,
                                             has_second ? floats_of_f16(tile + 2 * (dim + d)) : zero));
    }
  }
}

// 32 dimensions of the tokens [2 first, 2 end) of a span.
template <int kQueries, int kLinesEach>
struct AddPairs {
  static void call(const std::uint32_t* values, std::int64_t stride, std::int64_t first, std::int64_t end,
                   const std::uint32_t* const* weights, float* const* sums, const NextValues& next) {
    __m512 total[kQueries][2];
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
      total[i][0] = _mm512_loadu_ps(sums[i]);
      total[i][1] = _mm512_loadu_ps(sums[i] + 16);
    });
    constexpr std::int64_t kSteps = kLine / 2;
    values += first * stride;
    for (std::int64_t n = first; n < end; ++n, values += stride) {
      fetch_with_step<kLinesEach>(next.tiles[n / kSteps], n % kSteps);
      const __m512i left = _mm512_load_si512(values), right = _mm512_load_si512(values + 16);
      unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
        const __m512i weight = _mm512_set1_epi32(static_cast<int>(weights[i][n]));
        total[i][0] = add_products(total[i][0], weight, left);
        total[i][1] = add_products(total[i][1], weight, right);
      });
    }
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
      _mm512_storeu_ps(sums[i], total[i][0]);
      _mm512_storeu_ps(sums[i] + 16, total[i][1]);
    });
  }
};

#endif

}  // namespace
}  // namespace quire
