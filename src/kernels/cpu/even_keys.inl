// Scores in whole numbers, for keys whose levels are evenly spaced: sums of codes times queries of 7 bits
// (kv/query_codes.h). They are exact, so it does not matter what is added first.
#include "kernels/cpu/folds.inl"

namespace quire {
namespace {

constexpr bool evenly_spaced(const std::array<std::int8_t, 16>& levels) {
  for (int i = 0; i < 16; ++i) {
    if (levels[static_cast<std::size_t>(i)] != kHalfStep4 * (2 * i - 15)) return false;
  }
  return true;
}
static_assert(evenly_spaced(kLevels4));
static_assert(kv_group_dims(KvFormat::q4) == kLine);
constexpr std::int64_t kEvenLineBytes = kLine / 2;
static_assert(kLine * 15 * kLargestQueryCode < (1 << 15), "a group's sums fit 16 bits");

#if defined(__AVX512VNNI__)
// Of four times four bytes in each 128 bits, the first of each, then the second.
QUIRE_INLINE __m512i turned_bytes(__m512i x) {
  return _mm512_shuffle_epi8(x, _mm512_set4_epi32(0x0F0B0703, 0x0E0A0602, 0x0D090501, 0x0C080400));
}
// Of four lines of 16 bytes, the four bytes of each place side by side.
QUIRE_INLINE __m512i side_by_side(__m512i four) {
  const __m512i words = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return turned_bytes(_mm512_permutexvar_epi32(words, four));
}
#endif

// Sums of codes times those of each query, over the dimensions of a group: the 32 tokens of a page.
template <int kQueries>
QUIRE_INLINE void fold_codes(const Lines& lines, std::int64_t dims, const std::int8_t* const (&codes_of)[kQueries],
                             const std::int32_t* const (&pairs)[kQueries], I8 (&sums)[kQueries][kLineVectors]) {
#if defined(__AVX512VNNI__)
  (void)pairs;
  __m512i total[kQueries][2];  // tokens 0-15 and 16-31
  unrolled<kQueries>([&](auto i) QUIRE_LAMBDA { total[i][0] = total[i][1] = _mm512_setzero_si512(); });
  const __m512i nibble = _mm512_set1_epi8(15);
  const auto fold_four = [&](__m512i four, std::int64_t d) QUIRE_LAMBDA {
    const __m512i by_token = side_by_side(four);
    const __m512i low = _mm512_and_si512(by_token, nibble);
    const __m512i high = _mm512_and_si512(_mm512_srli_epi16(by_token, 4), nibble);
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
      std::int32_t query;
      std::memcpy(&query, codes_of[i] + d, sizeof query);
      total[i][0] = _mm512_dpbusd_epi32(total[i][0], low, _mm512_set1_epi32(query));
      total[i][1] = _mm512_dpbusd_epi32(total[i][1], high, _mm512_set1_epi32(query));
    });
  };
  std::int64_t d = 0;
  for (; d + 4 <= dims; d += 4) {
    fetch_ahead(lines.ahead + d * lines.ahead_stride);
    fetch_ahead(lines.ahead + (d + 2) * lines.ahead_stride);
    fold_four(_mm512_loadu_si512(lines.codes + d * kEvenLineBytes), d);
  }
  if (d < dims) {  // what is missing of four: zero, as the query is there
    alignas(64) std::byte rest[64] = {};
    std::memcpy(rest, lines.codes + d * kEvenLineBytes, static_cast<std::size_t>((dims - d) * kEvenLineBytes));
    fold_four(_mm512_load_si512(rest), d);
  }
  unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
    unrolled<2>([&](auto half) QUIRE_LAMBDA {
      sums[i][2 * half] = reinterpret_cast<I8>(_mm512_castsi512_si256(total[i][half]));
      sums[i][2 * half + 1] = reinterpret_cast<I8>(_mm512_extracti64x4_epi64(total[i][half], 1));
    });
  });
#elif defined(__AVX2__)
  (void)codes_of;
  __m256i total[kQueries][2];  // tokens 0-15 and 16-31, in 16 bits
  unrolled<kQueries>([&](auto i) QUIRE_LAMBDA { total[i][0] = total[i][1] = _mm256_setzero_si256(); });
  const __m256i nibble = _mm256_set1_epi8(15);
  const std::byte* codes = lines.codes;
  const std::byte* ahead = lines.ahead;
  // Two dimensions; an odd one out comes with itself, where the query has a zero.
  const auto fold_pair = [&](std::int64_t pair, std::int64_t next) QUIRE_LAMBDA {
    const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + next));
    const __m256i both = _mm256_set_m128i(_mm_unpackhi_epi8(first, second), _mm_unpacklo_epi8(first, second));
    const __m256i low = _mm256_and_si256(both, nibble), high = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
      const __m256i query = _mm256_set1_epi32(pairs[i][pair]);
      total[i][0] = _mm256_add_epi16(total[i][0], _mm256_maddubs_epi16(low, query));
      total[i][1] = _mm256_add_epi16(total[i][1], _mm256_maddubs_epi16(high, query));
    });
  };
  for (std::int64_t pair = 0; pair < dims / 2; ++pair) {
    fetch_ahead(ahead);
    fold_pair(pair, lines.stride);
    codes += 2 * lines.stride;
    ahead += 2 * lines.ahead_stride;
  }
  if (dims % 2 != 0) fold_pair(dims / 2, 0);
  unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
    unrolled<kLineVectors>([&](auto v) QUIRE_LAMBDA {
      const __m256i from = total[i][v / 2];
      const __m128i eight = v % 2 == 0 ? _mm256_castsi256_si128(from) : _mm256_extracti128_si256(from, 1);
      sums[i][v] = reinterpret_cast<I8>(_mm256_cvtepi16_epi32(eight));
    });
  });
#else
  (void)pairs;
  for (int i = 0; i < kQueries; ++i) {
    for (unsigned t = 0; t < kLine; ++t) {
      std::int32_t total = 0;
      for (std::int64_t d = 0; d < dims; ++d) {
        total += static_cast<std::int32_t>(nibble(lines.codes + d * lines.stride, t)) * codes_of[i][d];
      }
      sums[i][t / 8][t % 8] = total;
    }
  }
#endif
}

template <int kQueries>
void score_even(const KeyTile& k, const QueryCodes& queries, const std::int32_t* query, std::int64_t stride,
                float* const* scores) {
  for (std::int64_t d = 0; d < k.dim; d += kLine) {
    const std::int8_t* codes[kQueries];
    const std::int32_t* pairs[kQueries];
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
      codes[i] = queries.codes + query[i] * stride + d;
      pairs[i] = queries.pairs + (query[i] * stride + d) / 2;
    });
    I8 sums[kQueries][kLineVectors];
    fold_codes<kQueries>(k.lines.from(d), k.dim - d < kLine ? k.dim - d : kLine, codes, pairs, sums);
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
      const std::int64_t at = (query[i] * stride + d) / kLine;
      const std::int32_t middle = 15 * queries.sum[at];
      const F8 scale = broadcast(queries.scale[at]);
      unrolled<kLineVectors>([&](auto v) QUIRE_LAMBDA {
        F8 x = to_floats(sums[i][v] * 2 - middle) * scale * load8(k.scale + d + 8 * v);
        if (d > 0) x = x + load8(scores[i] + 8 * v);
        store8(scores[i] + 8 * v, x);
      });
    });
  }
}

QUIRE_INLINE void score_even(const KeyTile& k, const QueryCodes& queries, const std::int32_t* query, int count,
                             std::int64_t stride, float* const* scores) {
  constexpr decltype(&score_even<1>) kByCount[kMaxTogether] = {score_even<1>, score_even<2>, score_even<3>};
  kByCount[count - 1](k, queries, query, stride, scores);
}

}  // namespace
}  // namespace quire
