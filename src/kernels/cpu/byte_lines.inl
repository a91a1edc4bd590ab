// Four lines of codes as bytes side by side, which is how products of bytes read keys (of four dimensions) and values
// (of four tokens).
#include "kernels/cpu/span.inl"

namespace quire {
namespace {

#if defined(__AVX512BF16__)

constexpr std::int64_t kByteLines = 4;

// Elements 0-15 and 16-31, of each the levels of four lines.
struct FourLines {
  __m512i left, right;
};

QUIRE_INLINE FourLines four_lines_of_q8(const std::byte* at, std::int64_t stride) {
  const auto line = [&](std::int64_t i)
                        QUIRE_LAMBDA { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + i * stride)); };
  const __m512i front = _mm512_inserti64x4(_mm512_castsi256_si512(line(0)), line(1), 1);
  const __m512i back = _mm512_inserti64x4(_mm512_castsi256_si512(line(2)), line(3), 1);
  const __m512i left = _mm512_setr_epi32(0, 8, 16, 24, 1, 9, 17, 25, 2, 10, 18, 26, 3, 11, 19, 27);
  const __m512i right = _mm512_add_epi32(left, _mm512_set1_epi32(4));
  return {turned_bytes(_mm512_permutex2var_epi32(front, left, back)),
          turned_bytes(_mm512_permutex2var_epi32(front, right, back))};
}

// Four lines of 16 bytes in one vector. Lines side by side, or every other one as in values of 64 dimensions, take a
// load or two; what is loaded beside them is the tile's too.
QUIRE_INLINE __m512i four_short_lines(const std::byte* at, std::int64_t stride) {
  if (stride == 16) return _mm512_loadu_si512(at);
  if (stride == 32) return _mm512_shuffle_i32x4(_mm512_loadu_si512(at), _mm512_loadu_si512(at + 64), 0x88);
  const auto line = [&](std::int64_t i)
                        QUIRE_LAMBDA { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + i * stride)); };
  __m512i four = _mm512_castsi128_si512(line(0));
  four = _mm512_inserti32x4(four, line(1), 1);
  four = _mm512_inserti32x4(four, line(2), 2);
  return _mm512_inserti32x4(four, line(3), 3);
}

QUIRE_INLINE FourLines four_lines_of_q4(const std::byte* at, std::int64_t stride) {
  const __m512i four = four_short_lines(at, stride);
  const __m512i codes = side_by_side(four);
  const __m512i levels = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kLevels4.data())));
  const __m512i nibble = _mm512_set1_epi8(15);
  return {_mm512_shuffle_epi8(levels, _mm512_and_si512(codes, nibble)),
          _mm512_shuffle_epi8(levels, _mm512_and_si512(_mm512_srli_epi16(codes, 4), nibble))};
}

template <KvFormat kFormat>
QUIRE_INLINE FourLines four_lines(const std::byte* at, std::int64_t stride) {
  static_assert(kFormat == KvFormat::q8 || kFormat == KvFormat::q4);
  if constexpr (kFormat == KvFormat::q8) {
    return four_lines_of_q8(at, stride);
  } else {
    return four_lines_of_q4(at, stride);
  }
}

constexpr std::int64_t kCacheLine = 64;

// What the next span reads is fetched while products of this one are computed, so many lines of memory with each step
// of a loop: tiles of a head are far apart, a page each, so the hardware does not see the next one coming; and many
// fetches at once, or among loads from memory, stop everything.
template <int kLinesEach>
QUIRE_INLINE void fetch_with_step(const std::byte* from, std::int64_t step) {
  unrolled<kLinesEach>([&](auto i) QUIRE_LAMBDA { fetch_ahead(from + (step * kLinesEach + i) * kCacheLine); });
}
constexpr int kMostLinesEach = 2;
// The same where few queries read a span, and memory hardly comes as fast: into the first-level cache and no other,
// since nobody reads these lines again before the next token. Zen 5 lets go of many fetches into the second; and
// what is dropped there goes to the third, where it takes the place of weights.
template <int kLinesEach>
QUIRE_INLINE void fetch_once_with_step(const std::byte* from, std::int64_t step) {
  unrolled<kLinesEach>([&](auto i)
                           QUIRE_LAMBDA { __builtin_prefetch(from + (step * kLinesEach + i) * kCacheLine, 0, 0); });
}

// Kernels by lines fetched with each step, then by queries less one.
template <template <int, int> class Kernel>
struct ByLinesAndQueries {
  using Call = decltype(&Kernel<1, 0>::call);
  template <int kLinesEach>
  static constexpr Call kByQueries[] = {&Kernel<1, kLinesEach>::call, &Kernel<2, kLinesEach>::call,
                                        &Kernel<3, kLinesEach>::call, &Kernel<4, kLinesEach>::call,
                                        &Kernel<5, kLinesEach>::call, &Kernel<6, kLinesEach>::call};
  static constexpr const Call* kAll[kMostLinesEach + 1] = {kByQueries<0>, kByQueries<1>, kByQueries<2>};
  static QUIRE_INLINE Call with(int lines_each, int queries) { return kAll[lines_each][queries - 1]; }
};
constexpr int kByteQueries = 6;  // 6 x 2 sums are enough to hide how long a product takes

// Lanes of vector v whose token is in [first, last).
QUIRE_INLINE __mmask16 lanes_in_range(std::int64_t v, std::int64_t first, std::int64_t last) {
  const auto lanes_below = [v](std::int64_t token) QUIRE_LAMBDA {
    const std::int64_t lanes = token - 16 * v;
    return lanes <= 0 ? 0u : lanes >= 16 ? 0xFFFFu : (1u << lanes) - 1u;
  };
  return static_cast<__mmask16>(lanes_below(last) & ~lanes_below(first));
}

#endif

}  // namespace
}  // namespace quire
