// Weighted sums of values that are bytes: weights are rounded to 16 bits of what is largest in a span, tokens' scales
// included, and multiplied as two bytes each. Sums are of whole numbers, so it does not matter what is added first.
#include "kernels/cpu/key_bytes.inl"

namespace quire {
namespace {

#if defined(__AVX512BF16__)

// Weights of the largest value; a little less than 16 bits hold, since exponents are not quite in the order of scores.
constexpr float kLargestWeight = 65000;
static_assert(65536LL * 127 * kSpanTokens < INT64_C(1) << 31, "a span's sums fit 32 bits");

// What is fetched while values of a span are multiplied: of each page the values of the one four pages on.
struct NextValues {
  const std::byte* tiles[kSpanPages];
};

// [8, dim]: the codes of four tokens each.
template <KvFormat kFormat>
void make_value_bytes(const TileLayout& l, const std::byte* tile, std::uint32_t* codes) {
  const std::int64_t line = kFormat == KvFormat::q8 ? kLine : kLine / 2, stride = l.dim / kLine * line;
  for (std::int64_t t = 0; t < kLine; t += kByteLines, codes += l.dim) {
    for (std::int64_t chunk = 0; chunk < l.dim / kLine; ++chunk) {
      const FourLines four = four_lines<kFormat>(tile + t * stride + chunk * line, stride);
      _mm512_store_si512(codes + chunk * kLine, four.left);
      _mm512_store_si512(codes + chunk * kLine + 16, four.right);
    }
  }
}

// Scales of a page's values.
struct ByteValues {
  const float* scales;   // [groups, 32]
  const float* largest;  // [groups]: of all 32
};

// The largest scale of a page's tokens [first, last), in the order of bits: NaN is larger than all numbers.
QUIRE_INLINE float largest_scale(const float* scales, std::int64_t first, std::int64_t last) {
  __m512i bits[2];
  unrolled<2>([&](auto half) QUIRE_LAMBDA {
    bits[half] = _mm512_maskz_loadu_epi32(lanes_in_range(half, first, last), scales + 16 * half);
  });
  const __m512i sizes = _mm512_and_si512(_mm512_max_epu32(bits[0], bits[1]), _mm512_set1_epi32(0x7FFFFFFF));
  const std::uint32_t top = _mm512_reduce_max_epu32(sizes);
  float largest;
  std::memcpy(&largest, &top, sizeof largest);
  return largest;
}

// [groups, 32], of 16 bits each in the order of tokens.
QUIRE_INLINE const float* value_scales(const TileLayout& l, const std::byte* from, float*& scratch) {
  if (l.groups > 2) return scales_by_group(l, from, scratch);
  float* scales = take(scratch, l.groups * kLine);
  unrolled<2>([&](auto half) QUIRE_LAMBDA {
    float* to = scales + 16 * half;
    if (l.groups == 1) {
      const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 32 * half));
      _mm512_storeu_si512(to, _mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
    } else {
      const __m512i both = _mm512_loadu_si512(from + 64 * half);
      _mm512_storeu_si512(to, _mm512_slli_epi32(both, 16));
      _mm512_storeu_si512(to + kLine, _mm512_and_si512(both, _mm512_set1_epi32(static_cast<int>(0xFFFF0000u))));
    }
  });
  return scales;
}

ByteValues make_value_scales(const TileLayout& l, const std::byte* tile, float*& scratch) {
  const float* scales = value_scales(l, tile + l.scales, scratch);
  float* largest = take(scratch, l.groups);
  for (std::int64_t g = 0; g < l.groups; ++g) largest[g] = largest_scale(scales + g * kLine, 0, kLine);
  return {scales, largest};
}

// The two bytes of weights, those of four tokens side by side.
struct WeightBytes {
  alignas(64) std::uint32_t high[kSpanTokens / 4], low[kSpanTokens / 4];
};

// Weights of pages [first, end) of a span, times scales of a group. Returns the value of 1.
QUIRE_INLINE float round_weights(const float* weights, const ByteValues* pages, std::int64_t group, std::int64_t first,
                                 std::int64_t end, float largest, WeightBytes& to) {
  const float unit = largest * (1 / kLargestWeight);
  const __m512 inverse = _mm512_set1_ps(unit > 1e-37f ? 1 / unit : 0.f);
  for (std::int64_t p = first; p < end; ++p) {
    __m512i rounded[2];
    unrolled<2>([&](auto half) QUIRE_LAMBDA {
      const __m512 scale = _mm512_mul_ps(_mm512_loadu_ps(pages[p].scales + group * kLine + 16 * half), inverse);
      const __m512 weight = _mm512_load_ps(weights + p * kLine + 16 * half);
      rounded[half] = _mm512_cvtps_epi32(_mm512_mul_ps(weight, scale));
    });
    // In each 128 bits: low bytes of four tokens, of the four 16 on, then their high bytes.
    const __m512i words = _mm512_packus_epi32(rounded[0], rounded[1]);
    const __m512i bytes =
        _mm512_packus_epi16(_mm512_and_si512(words, _mm512_set1_epi16(0xFF)), _mm512_srli_epi16(words, 8));
    const __m512i in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i sorted = _mm512_permutexvar_epi32(in_order, bytes);
    _mm256_store_si256(reinterpret_cast<__m256i*>(to.low + p * kLine / 4), _mm512_castsi512_si256(sorted));
    _mm256_store_si256(reinterpret_cast<__m256i*>(to.high + p * kLine / 4), _mm512_extracti64x4_epi64(sorted, 1));
  }
  return unit;
}

// Weighted sums of 32 dimensions, of both bytes of weights.
template <int kQueries>
struct ByteSums {
  QUIRE_INLINE ByteSums() {
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
      unrolled<2>([&](auto part) QUIRE_LAMBDA { total[i][part][0] = total[i][part][1] = _mm512_setzero_si512(); });
    });
  }
  // Four tokens, which are number `four` of a span.
  QUIRE_INLINE void add(const FourLines& values, const WeightBytes* weights, std::int64_t four) {
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
      unrolled<2>([&](auto part) QUIRE_LAMBDA {
        const std::uint32_t* bytes = part == 0 ? weights[i].high : weights[i].low;
        const __m512i weight = _mm512_set1_epi32(static_cast<std::int32_t>(bytes[four]));
        total[i][part][0] = _mm512_dpbusd_epi32(total[i][part][0], weight, values.left);
        total[i][part][1] = _mm512_dpbusd_epi32(total[i][part][1], weight, values.right);
      });
    });
  }
  QUIRE_INLINE void store(const float* units, float* const* sums) const {
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
      const __m512 unit = _mm512_set1_ps(units[i]);
      unrolled<2>([&](auto half) QUIRE_LAMBDA {
        const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(total[i][0][half], 8), total[i][1][half]);
        float* to = sums[i] + 16 * half;
        _mm512_storeu_ps(to, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), unit, _mm512_loadu_ps(to)));
      });
    });
  }

  __m512i total[kQueries][2][2];
};

// 32 dimensions of the tokens [4 first, 4 end) of a span.
template <int kQueries, int kLinesEach>
struct AddBytes {
  static void call(const std::uint32_t* values, std::int64_t stride, std::int64_t first, std::int64_t end,
                   const WeightBytes* weights, const float* units, float* const* sums, const NextValues& next) {
    ByteSums<kQueries> total;
    constexpr std::int64_t kSteps = kLine / 4;
    values += first * stride;
    for (std::int64_t n = first; n < end; ++n, values += stride) {
      if constexpr (kLinesEach > 0) fetch_with_step<kLinesEach>(next.tiles[n / kSteps], n % kSteps);
      total.add({_mm512_load_si512(values), _mm512_load_si512(values + 16)}, weights, n);
    }
    total.store(units, sums);
  }
};

#endif

}  // namespace
}  // namespace quire
