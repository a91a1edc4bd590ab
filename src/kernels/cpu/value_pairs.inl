// Weighted sums of values of f16: weights and values are multiplied in bf16, the 16 bits of two tokens side by side,
// and added up in floats.
#include "kernels/cpu/value_bytes.inl"

namespace quire {
namespace {

#if defined(__AVX512BF16__)

QUIRE_INLINE __m512 add_products(__m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

// Values of f16 become bf16 without passing through floats: three bits of the mantissa are rounded off, and the
// exponent stays as it is, so that a value is so many times too small. Weights are as many times too large.
constexpr float kPairWeight = 0x1p112f;

// Sizes, as bits without sign, to bf16.
QUIRE_INLINE __m512i rounded_sizes(__m512i sizes) { return _mm512_mulhrs_epi16(sizes, _mm512_set1_epi16(1 << 12)); }
// The same where some are infinities or NaN.
QUIRE_INLINE __m512i rounded_sizes_of_any(__m512i sizes) {
  const __m512i infinity = _mm512_set1_epi16(0x7C00);
  const __m512i rounded = rounded_sizes(sizes);
  const __m512i or_infinite =
      _mm512_mask_mov_epi16(rounded, _mm512_cmpeq_epi16_mask(sizes, infinity), _mm512_set1_epi16(0x7F80));
  return _mm512_mask_mov_epi16(or_infinite, _mm512_cmpgt_epu16_mask(sizes, infinity), _mm512_set1_epi16(0x7FC0));
}

// Of two tokens' lines, as pairs in the order of dimensions.
struct MadePairs {
  __m512i left, right;
};

// How lines of f16 become pairs. kAny: where some may be infinities or NaN.
template <bool kAny>
struct PairMaker {
  QUIRE_INLINE PairMaker() {
    const __m512i each = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i of_second = _mm512_set1_epi32(32 << 16);
    left = _mm512_add_epi16(_mm512_or_si512(each, _mm512_slli_epi32(each, 16)), of_second);
    right = _mm512_add_epi16(left, _mm512_set1_epi16(16));
  }
  QUIRE_INLINE __m512i to_bf16(__m512i x) {
    const __m512i sizes = _mm512_and_si512(x, _mm512_set1_epi16(0x7FFF));
    largest = _mm512_max_epu16(largest, sizes);
    const __m512i rounded = kAny ? rounded_sizes_of_any(sizes) : rounded_sizes(sizes);
    constexpr int kFirstOrBothOthers = 0xF8;
    return _mm512_ternarylogic_epi32(rounded, x, _mm512_set1_epi16(static_cast<short>(0x8000)), kFirstOrBothOthers);
  }
  QUIRE_INLINE MadePairs make(__m512i first, __m512i second) {
    const __m512i front = to_bf16(first), back = to_bf16(second);
    return {_mm512_permutex2var_epi16(front, left, back), _mm512_permutex2var_epi16(front, right, back)};
  }
  QUIRE_INLINE bool all_finite() const { return _mm512_cmpge_epu16_mask(largest, _mm512_set1_epi16(0x7C00)) == 0; }

  __m512i left, right, largest = _mm512_setzero_si512();
};

// A line of a token, zero where it is not in [first, last), whatever memory holds there.
QUIRE_INLINE __m512i seen_line(const std::byte* at, std::int64_t token, std::int64_t first, std::int64_t last) {
  return token >= first && token < last ? _mm512_loadu_si512(at) : _mm512_setzero_si512();
}

template <bool kAny>
QUIRE_INLINE bool made_value_pairs(const std::byte* tile, std::int64_t dim, std::int64_t first, std::int64_t last,
                                   std::uint32_t* pairs) {
  PairMaker<kAny> maker;
  for (std::int64_t t = 0; t < kLine; t += 2, tile += 4 * dim, pairs += dim) {
    for (std::int64_t d = 0; d < dim; d += kLine) {
      const MadePairs line =
          maker.make(seen_line(tile + 2 * d, t, first, last), seen_line(tile + 2 * (dim + d), t + 1, first, last));
      _mm512_store_si512(pairs + d, line.left);
      _mm512_store_si512(pairs + d + 16, line.right);
    }
  }
  return maker.all_finite();
}

// [16, dim]: of the page's tokens [first, last), zero beside them.
void make_value_pairs(const std::byte* tile, std::int64_t dim, std::int64_t first, std::int64_t last,
                      std::uint32_t* pairs) {
  if (!made_value_pairs<false>(tile, dim, first, last, pairs)) made_value_pairs<true>(tile, dim, first, last, pairs);
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
      if constexpr (kLinesEach > 0) fetch_with_step<kLinesEach>(next.tiles[n / kSteps], n % kSteps);
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
