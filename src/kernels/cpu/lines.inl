// A line is 32 values of a tile that lie together: the 32 tokens of one dimension, or 32
// dimensions of one token. Whatever the format, a line becomes four vectors of floats, exactly:
// scales are applied elsewhere. So it does not matter to the bits of a result whether codes are
// converted on the fly or unpacked once and read often.
#include "kv/format/layouts.h"

namespace quire {
namespace {

constexpr int kLineVectors = 4;

// Formats whose vectors are converted one by one: vector(codes, v).
struct F32Line {
  static QUIRE_INLINE F8 vector(const std::byte* codes, int v) {
    return load8(reinterpret_cast<const float*>(codes) + 8 * v);
  }
};

struct F16Line {
  static QUIRE_INLINE F8 vector(const std::byte* codes, int v) {
    return load8_f16(reinterpret_cast<const std::uint16_t*>(codes) + 8 * v);
  }
};

struct Bf16Line {
  static QUIRE_INLINE F8 vector(const std::byte* codes, int v) {
    return load8_bf16(reinterpret_cast<const std::uint16_t*>(codes) + 8 * v);
  }
};

struct Q8Line {
  static QUIRE_INLINE F8 vector(const std::byte* codes, int v) {
#if defined(__AVX2__)
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + 8 * v));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
#else
    F8 x;
    for (int i = 0; i < 8; ++i) x[i] = static_cast<float>(static_cast<std::int8_t>(codes[8 * v + i]));
    return x;
#endif
  }
};

// Other formats make a line as a whole: make(codes, fifth bits, line). With AVX2 it is made of f16, in
// which their codes are exact.
#if defined(__AVX2__)

using Made = std::uint16_t;

// Unpacking bytes to 16 bits leaves tokens 0-7 and 16-23 in one vector, 8-15 and 24-31 in the other.
QUIRE_INLINE F8 made_vector(const Made* line, int v) {
  constexpr int kPlace[kLineVectors] = {0, 2, 1, 3};
  return load8_f16(line + 8 * kPlace[v]);
}
QUIRE_INLINE void store_made(Made* line, __m256i low, __m256i high) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(line), _mm256_unpacklo_epi8(low, high));
  _mm256_store_si256(reinterpret_cast<__m256i*>(line + 16), _mm256_unpackhi_epi8(low, high));
}

// The bytes of small integers in f16.
struct LevelTable {
  alignas(16) std::uint8_t low[16], high[16];
};
constexpr unsigned f16_of_integer(int x) {
  if (x < 0) return 0x8000u | f16_of_integer(-x);
  unsigned exponent = 0;
  while (x >> (exponent + 1) != 0) ++exponent;
  return x == 0 ? 0 : (exponent + 15) << 10 | ((static_cast<unsigned>(x) << 10 >> exponent) & 0x3FFu);
}
template <class Levels>
constexpr LevelTable level_table(const Levels& levels, std::size_t from = 0) {
  LevelTable table{};
  for (std::size_t i = 0; i < 16; ++i) {
    const unsigned f16 = f16_of_integer(levels[(from + i) % levels.size()]);
    table.low[i] = static_cast<std::uint8_t>(f16 & 0xFFu);
    table.high[i] = static_cast<std::uint8_t>(f16 >> 8);
  }
  return table;
}
QUIRE_INLINE __m256i look_up(const std::uint8_t* table, __m256i index) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table))),
                             index);
}

QUIRE_INLINE __m256i nibbles(const std::byte* codes) {
  const __m256i twice = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
  return _mm256_and_si256(_mm256_srlv_epi64(twice, _mm256_setr_epi64x(0, 0, 4, 4)), _mm256_set1_epi8(15));
}
QUIRE_INLINE __m256i bit_pairs(const std::byte* codes) {
  std::int64_t bits;
  std::memcpy(&bits, codes, sizeof bits);
  return _mm256_and_si256(_mm256_srlv_epi64(_mm256_set1_epi64x(bits), _mm256_setr_epi64x(0, 2, 4, 6)),
                          _mm256_set1_epi8(3));
}
// A byte of ones where the bit is not set.
QUIRE_INLINE __m256i mask_of_zeros(const std::byte* bits) {
  std::int32_t word;
  std::memcpy(&word, bits, sizeof word);
  const __m256i spread = _mm256_shuffle_epi8(
      _mm256_set1_epi32(word), _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
  const __m256i select = _mm256_set1_epi64x(static_cast<std::int64_t>(0x8040201008040201u));
  return _mm256_cmpeq_epi8(_mm256_and_si256(spread, select), _mm256_setzero_si256());
}

#else

using Made = float;

QUIRE_INLINE F8 made_vector(const Made* line, int v) { return load8(line + 8 * v); }
QUIRE_INLINE unsigned nibble(const std::byte* codes, unsigned i) {
  return static_cast<unsigned>(codes[i % 16]) >> (i < 16 ? 0 : 4) & 15u;
}

#endif

// e4m3, divided by 256: its bits are then those of an f16, subnormals included. Scales make up for it.
struct Fp8Line {
  static QUIRE_INLINE void make(const std::byte* codes, const std::byte*, Made* line) {
#if defined(__AVX2__)
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
    const __m256i zero = _mm256_setzero_si256(), bits = _mm256_set1_epi16(static_cast<short>(0xBFFF));
    const auto f16 = [&](__m256i upper) { return _mm256_and_si256(_mm256_srai_epi16(upper, 1), bits); };
    _mm256_store_si256(reinterpret_cast<__m256i*>(line), f16(_mm256_unpacklo_epi8(zero, bytes)));
    _mm256_store_si256(reinterpret_cast<__m256i*>(line + 16), f16(_mm256_unpackhi_epi8(zero, bytes)));
#else
    for (unsigned i = 0; i < kLine; ++i) {
      const auto byte = static_cast<unsigned>(codes[i]);
      const auto f16 = static_cast<std::uint16_t>((byte & 0x80u) << 8 | (byte & 0x7Fu) << 7);
      line[i] = load_f16(&f16);
    }
#endif
  }
};
constexpr float kFp8Unit = 256;

constexpr bool mirrored(const std::array<std::int8_t, 32>& levels) {
  for (std::size_t i = 0; i < 32; ++i) {
    if (levels[i] != -levels[31 - i]) return false;
  }
  return true;
}
static_assert(mirrored(kLevels5));

struct Q5Line {
  static QUIRE_INLINE void make(const std::byte* codes, const std::byte* fifth, Made* line) {
#if defined(__AVX2__)
    // The lower half of the levels is the upper one, mirrored and negated.
    static constexpr LevelTable kTable = level_table(kLevels5, 16);
    const __m256i lower = mask_of_zeros(fifth);
    const __m256i index = _mm256_xor_si256(nibbles(codes), _mm256_and_si256(lower, _mm256_set1_epi8(15)));
    const __m256i sign = _mm256_and_si256(lower, _mm256_set1_epi8(static_cast<char>(0x80)));
    store_made(line, look_up(kTable.low, index), _mm256_or_si256(look_up(kTable.high, index), sign));
#else
    std::uint32_t bits;
    std::memcpy(&bits, fifth, sizeof bits);
    for (unsigned i = 0; i < kLine; ++i) {
      line[i] = static_cast<float>(kLevels5[nibble(codes, i) | (bits >> i & 1u) << 4]);
    }
#endif
  }
};

template <const auto& kLevels>
struct NibbleLine {
  static QUIRE_INLINE void make(const std::byte* codes, const std::byte*, Made* line) {
#if defined(__AVX2__)
    static constexpr LevelTable kTable = level_table(kLevels);
    const __m256i index = nibbles(codes);
    store_made(line, look_up(kTable.low, index), look_up(kTable.high, index));
#else
    for (unsigned i = 0; i < kLine; ++i) line[i] = static_cast<float>(kLevels[nibble(codes, i)]);
#endif
  }
};

template <const auto& kLevels>
struct PairLine {
  static QUIRE_INLINE void make(const std::byte* codes, const std::byte*, Made* line) {
#if defined(__AVX2__)
    static constexpr LevelTable kTable = level_table(kLevels);
    const __m256i index = bit_pairs(codes);
    store_made(line, look_up(kTable.low, index), look_up(kTable.high, index));
#else
    for (unsigned i = 0; i < kLine; ++i) {
      line[i] = static_cast<float>(kLevels[static_cast<unsigned>(codes[i % 8]) >> 2 * (i / 8) & 3u]);
    }
#endif
  }
};

constexpr std::array<std::int8_t, 16> kCounting{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// Lines one after the other. Five-bit codes have their fifth bits elsewhere, 4 bytes for every 16.
struct Lines {
  const std::byte* codes;
  std::int64_t stride;
  const std::byte* fifth_bits;
};

template <class Line>
constexpr bool kByVector = requires(const std::byte* codes) {
  Line::vector(codes, 0);
};

template <class Line>
void unpack_lines(const Lines& lines, std::int64_t count, float* out) {  // [count, 32]
  for (std::int64_t n = 0; n < count; ++n) {
    const std::byte* codes = lines.codes + n * lines.stride;
    if constexpr (kByVector<Line>) {
      for (int v = 0; v < kLineVectors; ++v) store8(out + n * kLine + 8 * v, Line::vector(codes, v));
    } else {
      alignas(32) Made line[kLine];
      Line::make(codes, lines.fifth_bits + n * lines.stride / 4, line);
      for (int v = 0; v < kLineVectors; ++v) store8(out + n * kLine + 8 * v, made_vector(line, v));
    }
  }
}

// total[i] += weights[i][n] * line, vector by vector: sums and weights of three queries leave one register of
// 16 free, so no more than one vector of the line may be at hand.
template <int kQueries, class Vector>
QUIRE_INLINE void fold_line(F8 (&total)[kQueries][kLineVectors], const float* const (&weights)[kQueries],
                            std::int64_t n, Vector vector) {
  F8 weight[kQueries];
  for (int i = 0; i < kQueries; ++i) weight[i] = broadcast(weights[i][n]);
  for (int v = 0; v < kLineVectors; ++v) {
    const F8 x = vector(v);
    for (int i = 0; i < kQueries; ++i) total[i][v] = fma(weight[i], x, total[i][v]);
  }
}

// sums[i] += weights[i][n] * line n, for n in [first, last), kQueries of them over one conversion. A line that
// is made as a whole goes through memory, made one ahead of its use: the one after the last is still in
// the tile, since scales follow.
template <class Line, int kQueries>
void fold_lines(const Lines& lines, std::int64_t first, std::int64_t last, const float* const* weights,
                float* const* sums) {
  const float* weight_of[kQueries];
  F8 total[kQueries][kLineVectors];
  for (int i = 0; i < kQueries; ++i) {
    weight_of[i] = weights[i];
    for (int v = 0; v < kLineVectors; ++v) total[i][v] = load8(sums[i] + 8 * v);
  }
  const std::byte* codes = lines.codes + first * lines.stride;
  if constexpr (kByVector<Line>) {
    for (std::int64_t n = first; n < last; ++n, codes += lines.stride) {
      fold_line(total, weight_of, n, [codes](int v) { return Line::vector(codes, v); });
    }
  } else {
    const std::byte* fifth = lines.fifth_bits + first * lines.stride / 4;
    alignas(32) Made made[2 * kLine];
    Made* now = made;
    Made* ahead = made + kLine;
    Line::make(codes, fifth, now);
    for (std::int64_t n = first; n < last; ++n) {
      codes += lines.stride;
      fifth += lines.stride / 4;
      Line::make(codes, fifth, ahead);
      fold_line(total, weight_of, n, [now](int v) { return made_vector(now, v); });
      Made* const used = now;
      now = ahead;
      ahead = used;
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    for (int v = 0; v < kLineVectors; ++v) store8(sums[i] + 8 * v, total[i][v]);
  }
}

struct LineKernels {
  void (*fold[kMaxTogether])(const Lines&, std::int64_t first, std::int64_t last, const float* const* weights,
                             float* const* sums);
  void (*unpack)(const Lines&, std::int64_t count, float* out);
  // Up to so many queries it is cheaper to convert lines again for each pass than to unpack them. Measured.
  std::int64_t few_queries;
};

template <class Line>
constexpr LineKernels kLineKernels{
    {fold_lines<Line, 1>, fold_lines<Line, 2>, fold_lines<Line, 3>}, unpack_lines<Line>, kByVector<Line> ? 24 : 6};

const LineKernels& line_kernels(KvFormat format) {
  switch (format) {
    case KvFormat::f32:
      return kLineKernels<F32Line>;
    case KvFormat::f16:
      return kLineKernels<F16Line>;
    case KvFormat::bf16:
      return kLineKernels<Bf16Line>;
    case KvFormat::fp8:
      return kLineKernels<Fp8Line>;
    case KvFormat::q8:
      return kLineKernels<Q8Line>;
    case KvFormat::q5:
      return kLineKernels<Q5Line>;
    case KvFormat::q4:
      return kLineKernels<NibbleLine<kLevels4>>;
    case KvFormat::q2:
      return kLineKernels<PairLine<kLevels2>>;
    case KvFormat::k4:
      return kLineKernels<NibbleLine<kCounting>>;
    case KvFormat::k2:
      return kLineKernels<PairLine<kCounting>>;
  }
  __builtin_unreachable();
}

}  // namespace
}  // namespace quire
