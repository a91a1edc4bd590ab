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

ByteValues make_value_scales(const TileLayout& l, const std::byte* tile, float*& scratch) {
  const float* scales = scales_by_group(l, tile + l.scales, scratch);
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
    unrolled<2>([&](auto half) QUIRE_LAMBDA {
      const std::int64_t t = p * kLine + 16 * half;
      const __m512 scale = _mm512_mul_ps(_mm512_loadu_ps(pages[p].scales + group * kLine + 16 * half), inverse);
      const __m512i rounded = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_load_ps(weights + t), scale));
      _mm_store_si128(reinterpret_cast<__m128i*>(to.high + t / 4), _mm512_cvtepi32_epi8(_mm512_srli_epi32(rounded, 8)));
      _mm_store_si128(reinterpret_cast<__m128i*>(to.low + t / 4), _mm512_cvtepi32_epi8(rounded));
    });
  }
  return unit;
}

// 32 dimensions of the tokens [4 first, 4 end) of a span.
template <int kQueries, int kLinesEach>
struct AddBytes {
  static void call(const std::uint32_t* values, std::int64_t stride, std::int64_t first, std::int64_t end,
                   const WeightBytes* weights, const float* units, float* const* sums, const NextValues& next) {
    __m512i total[kQueries][2][2];
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
      unrolled<2>([&](auto part) QUIRE_LAMBDA { total[i][part][0] = total[i][part][1] = _mm512_setzero_si512(); });
    });
    constexpr std::int64_t kSteps = kLine / 4;
    values += first * stride;
    for (std::int64_t n = first; n < end; ++n, values += stride) {
      fetch_with_step<kLinesEach>(next.tiles[n / kSteps], n % kSteps);
      const __m512i left = _mm512_load_si512(values), right = _mm512_load_si512(values + 16);
      unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
        unrolled<2>([&](auto part) QUIRE_LAMBDA {
          const std::uint32_t* bytes = part == 0 ? weights[i].high : weights[i].low;
          const __m512i weight = _mm512_set1_epi32(static_cast<std::int32_t>(bytes[n]));
          total[i][part][0] = _mm512_dpbusd_epi32(total[i][part][0], weight, left);
          total[i][part][1] = _mm512_dpbusd_epi32(total[i][part][1], weight, right);
        });
      });
    }
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
      const __m512 unit = _mm512_set1_ps(units[i]);
      unrolled<2>([&](auto half) QUIRE_LAMBDA {
        const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(total[i][0][half], 8), total[i][1][half]);
        float* to = sums[i] + 16 * half;
        _mm512_storeu_ps(to, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), unit, _mm512_loadu_ps(to)));
      });
    });
  }
};

#endif

}  // namespace
}  // namespace quire
