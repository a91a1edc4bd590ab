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

// Other formats have to be made into lines that are read so: make(codes, fifth bits, line). With AVX2 these are of
// f16, in which codes are exact and which cost nothing to convert.
#if defined(__AVX2__)

using Made = std::uint16_t;

// Unpacking bytes to 16 bits leaves tokens 0-7 and 16-23 in one vector, 8-15 and 24-31 in the other.
constexpr int kMadePlace[kLineVectors] = {0, 2, 1, 3};
QUIRE_INLINE F8 load_made(const Made* line, int v) { return load8_f16(line + 8 * kMadePlace[v]); }
QUIRE_INLINE void store_made(Made* line, int v, F8 x) { store8_f16(line + 8 * kMadePlace[v], x); }
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

QUIRE_INLINE F8 load_made(const Made* line, int v) { return load8(line + 8 * v); }
QUIRE_INLINE void store_made(Made* line, int v, F8 x) { store8(line + 8 * v, x); }
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

struct MadeLine {
  static QUIRE_INLINE F8 vector(const std::byte* codes, int v) {
    return load_made(reinterpret_cast<const Made*>(codes), v);
  }
};

// Lines one after the other. Five-bit codes have their fifth bits elsewhere, 4 bytes for every 16. While a line is
// read, memory that comes later is fetched: a little with each line, since many fetches at once stop everything.
struct Lines {
  const std::byte* codes;
  std::int64_t stride;
  const std::byte* fifth_bits;
  const std::byte* ahead;
  std::int64_t ahead_stride;

  QUIRE_INLINE Lines from(std::int64_t n) const {
    return {codes + n * stride, stride, fifth_bits + n * (stride / 4), ahead + n * ahead_stride, ahead_stride};
  }
};
// Of lines in small memory that was just written: nothing.
QUIRE_INLINE Lines lines_at_hand(const void* x, std::int64_t stride) {
  const auto* bytes = static_cast<const std::byte*>(x);
  return {bytes, stride, bytes, bytes, 0};
}
QUIRE_INLINE void fetch_ahead(const std::byte* at) { __builtin_prefetch(at, 0, 2); }

template <class Line>
constexpr bool kByVector = requires(const std::byte* codes) {
  Line::vector(codes, 0);
};

template <class Line>
QUIRE_INLINE void make_line(const Lines& at, Made* line) {
  if constexpr (kByVector<Line>) {
    for (int v = 0; v < kLineVectors; ++v) store_made(line, v, Line::vector(at.codes, v));
  } else {
    Line::make(at.codes, at.fifth_bits, line);
  }
}

template <class Line>
void make_lines(const Lines& lines, std::int64_t count, Made* out) {  // [count, 32]
  Lines at = lines;  // its own, so that what is stored cannot be thought to change it
  for (std::int64_t n = 0; n < count; ++n, at = at.from(1)) {
    if (kByVector<Line> || n % 2 == 0) fetch_ahead(at.ahead);
    make_line<Line>(at, out + n * kLine);
  }
}

template <class Line>
void lines_to_floats(const Lines& lines, std::int64_t count, float* out) {  // [count, 32]
  for (std::int64_t n = 0; n < count; ++n, out += kLine) {
    const Lines at = lines.from(n);
    if constexpr (kByVector<Line>) {
      for (int v = 0; v < kLineVectors; ++v) store8(out + 8 * v, Line::vector(at.codes, v));
    } else {
      alignas(32) Made line[kLine];
      Line::make(at.codes, at.fifth_bits, line);
      for (int v = 0; v < kLineVectors; ++v) store8(out + 8 * v, load_made(line, v));
    }
  }
}

}  // namespace
}  // namespace quire
