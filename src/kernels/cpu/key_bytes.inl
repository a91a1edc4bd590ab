// Scores as products of bytes: queries are rounded to 8 bits, with a scale per 32 dimensions, and so are keys of f16
// pages; those of fewer bits are what they are. Keys are made unsigned by an offset, which is taken off again by the
// sum of the query it was multiplied with.
#include "kernels/cpu/byte_lines.inl"

namespace quire {
namespace {

#if defined(__AVX512BF16__)

constexpr std::int64_t kByteDims = 32;
constexpr std::int64_t kBytesOffset = 128;

// Keys of a page.
struct ByteTile {
  const std::uint32_t* codes;  // [dim / 4, 32 tokens], four dimensions each
  const float* scales;         // [dim / 32, 32]
  std::int64_t dim;
  const std::byte* next;  // fetched while these are multiplied
  int lines_each;         // with each four dimensions
};

constexpr std::int64_t byte_tile_floats(std::int64_t dim) {
  return dim / 4 * kLine + (dim + kByteDims - 1) / kByteDims * kLine;
}

QUIRE_INLINE __m512 floats_of_f16(const std::byte* at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}

// Largest sizes of sixteen tokens to scales and their inverses; NaN where one was not finite. Sizes of f16 are in the
// order of their bits.
QUIRE_INLINE void make_key_scales(__m256i largest, __m512& scales, __m512& inverse) {
  const __m512 size = _mm512_cvtph_ps(largest);
  const __mmask16 finite = _mm256_cmplt_epu16_mask(largest, _mm256_set1_epi16(0x7C00));
  const __mmask16 some = _mm256_test_epi16_mask(largest, largest);
  inverse = _mm512_maskz_div_ps(finite & some, _mm512_set1_ps(127.f), size);
  const __m512 scale = _mm512_mul_ps(size, _mm512_set1_ps(1 / 127.f));
  scales = _mm512_mask_blend_ps(finite, _mm512_set1_ps(__builtin_nanf("")), scale);
}

// The byte of each float that rounding to a whole number leaves lowest, of four side by side.
QUIRE_INLINE __m512i low_bytes(__m512 a, __m512 b, __m512 c, __m512 d) {
  const __m512i first = _mm512_castps_si512(a), third = _mm512_castps_si512(c), byte = _mm512_set1_epi32(256);
  // Of each the low 16 bits are small whole numbers, which a product moves up by a byte and adds.
  const __m512i front = _mm512_dpwssd_epi32(first, _mm512_castps_si512(b), byte);
  const __m512i back = _mm512_dpwssd_epi32(third, _mm512_castps_si512(d), byte);
  return _mm512_mask_blend_epi16(0xAAAAAAAAu, front, _mm512_slli_epi32(back, 16));
}

// Keys of 32 dimensions as bytes, four dimensions at a time, and their scales; of tokens 0-15 and 16-31.
template <KvFormat kFormat>
struct KeysAsBytes {
  static constexpr std::int64_t kLineBytes = kFormat == KvFormat::q8 ? kLine : kLine / 2;
  static constexpr int kTileLinesEach = kByteLines * kLineBytes / kCacheLine;  // of memory, for four dimensions
  static constexpr int kFetchedWhileMade = 0;                                  // of these, of the tile that comes next

  KeysAsBytes(const TileLayout& layout, const std::byte* tile_) : l(layout), tile(tile_) {}
  QUIRE_INLINE void go_to(std::int64_t begin, std::int64_t) {
    const std::byte* group = tile + l.scales + begin / l.group_dims * (2 * kLine);
    unrolled<2>([&](auto half) QUIRE_LAMBDA {
      const __m256i bf16 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(group + 32 * half));
      scale[half] = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
    });
  }
  QUIRE_INLINE FourLines four(std::int64_t d) const {
    const __m512i offset = _mm512_set1_epi8(static_cast<char>(kBytesOffset));
    const FourLines lines = four_lines<kFormat>(tile + d * kLineBytes, kLineBytes);
    return {_mm512_xor_si512(lines.left, offset), _mm512_xor_si512(lines.right, offset)};
  }

  const TileLayout& l;
  const std::byte* tile;
  __m512 scale[2];
};

template <>
struct KeysAsBytes<KvFormat::f16> {
  static constexpr std::int64_t kLineBytes = 2 * kLine;
  static constexpr int kTileLinesEach = kByteLines * kLineBytes / kCacheLine;
  // Half of what comes next is fetched where keys are made, which takes as long as products do.
  static constexpr int kFetchedWhileMade = kTileLinesEach / 2;

  KeysAsBytes(const TileLayout&, const std::byte* tile_) : tile(tile_) {}
  QUIRE_INLINE void go_to(std::int64_t begin, std::int64_t end) {
    __m512i largest_of[kByteLines] = {};
    for (std::int64_t d = begin; d < end; d += kByteLines) {
      unrolled<kByteLines>([&](auto i) QUIRE_LAMBDA {
        const __m512i line = _mm512_loadu_si512(tile + (d + i) * kLineBytes);
        largest_of[i] = _mm512_max_epu16(largest_of[i], _mm512_and_si512(line, _mm512_set1_epi16(0x7FFF)));
      });
    }
    const __m512i largest = _mm512_max_epu16(_mm512_max_epu16(largest_of[0], largest_of[1]),
                                             _mm512_max_epu16(largest_of[2], largest_of[3]));
    make_key_scales(_mm512_castsi512_si256(largest), scale[0], inverse[0]);
    make_key_scales(_mm512_extracti64x4_epi64(largest, 1), scale[1], inverse[1]);
  }
  QUIRE_INLINE FourLines four(std::int64_t d) const { return {half_of_four(d, 0), half_of_four(d, 1)}; }
  QUIRE_INLINE __m512i half_of_four(std::int64_t d, std::int64_t half) const {
    // Adding 1.5 * 2^23 rounds to a whole number, which is in the low bits.
    const __m512 magic = _mm512_set1_ps(0x1.8p23f + static_cast<float>(kBytesOffset));
    const auto rounded = [&](std::int64_t line) QUIRE_LAMBDA {
      return _mm512_fmadd_ps(floats_of_f16(tile + (d + line) * kLineBytes + 32 * half), inverse[half], magic);
    };
    return low_bytes(rounded(0), rounded(1), rounded(2), rounded(3));
  }

  const std::byte* tile;
  __m512 scale[2], inverse[2];
};

// Scales are fetched all at once: there are few.
QUIRE_INLINE void fetch_scales(const TileLayout& l, const std::byte* next) {
  for (std::int64_t i = l.scales; l.groups > 0 && i < l.bytes; i += kCacheLine) fetch_ahead(next + i);
}

template <KvFormat kFormat>
ByteTile make_key_bytes(const TileLayout& l, const std::byte* tile, const std::byte* next, float* scratch) {
  using Keys = KeysAsBytes<kFormat>;
  auto* codes = reinterpret_cast<std::uint32_t*>(scratch);
  float* scales = scratch + l.dim / 4 * kLine;
  const ByteTile made{codes, scales, l.dim, next + l.dim / kByteLines * Keys::kFetchedWhileMade * kCacheLine,
                      Keys::kTileLinesEach - Keys::kFetchedWhileMade};
  fetch_scales(l, next);
  Keys keys(l, tile);
  for (std::int64_t begin = 0; begin < l.dim; begin += kByteDims, scales += kLine) {
    const std::int64_t end = begin + kByteDims < l.dim ? begin + kByteDims : l.dim;
    keys.go_to(begin, end);
    _mm512_store_ps(scales, keys.scale[0]);
    _mm512_store_ps(scales + 16, keys.scale[1]);
    for (std::int64_t d = begin; d < end; d += kByteLines, codes += kLine) {
      fetch_with_step<Keys::kFetchedWhileMade>(next, d / kByteLines);
      const FourLines four = keys.four(d);
      _mm512_store_si512(codes, four.left);
      _mm512_store_si512(codes + 16, four.right);
    }
  }
  return made;
}

// body(format) with that of keys that are read so.
template <class Body>
QUIRE_INLINE auto with_byte_format(KvFormat format, Body&& body) {
  switch (format) {
    case KvFormat::q8:
      return body(std::integral_constant<KvFormat, KvFormat::q8>{});
    case KvFormat::q4:
      return body(std::integral_constant<KvFormat, KvFormat::q4>{});
    default:
      return body(std::integral_constant<KvFormat, KvFormat::f16>{});
  }
}

QUIRE_INLINE ByteTile make_key_bytes(const TileLayout& l, const std::byte* tile, const std::byte* next,
                                     float* scratch) {
  return with_byte_format(l.format,
                          [&](auto format) QUIRE_LAMBDA { return make_key_bytes<format>(l, tile, next, scratch); });
}

// [stride / 4] codes, four each; then of each 32 dimensions the scale and what the keys' offset adds. Where one is not
// finite the scale is NaN.
QUIRE_INLINE void make_query_bytes(const float* x, std::int64_t stride, std::uint32_t* to) {
  std::uint32_t* scales = to + stride / 4;
  for (std::int64_t begin = 0; begin < stride; begin += kByteDims, scales += 2) {
    const std::int64_t end = begin + kByteDims < stride ? begin + kByteDims : stride;
    __m512i largest = _mm512_setzero_si512();
    for (std::int64_t d = begin; d < end; d += 16) {
      const __m512i size = _mm512_and_si512(_mm512_loadu_si512(x + d), _mm512_set1_epi32(0x7FFFFFFF));
      largest = _mm512_max_epu32(largest, size);
    }
    const std::uint32_t bits = _mm512_reduce_max_epu32(largest);
    float size;
    std::memcpy(&size, &bits, sizeof size);
    const bool finite = bits < 0x7F800000u;
    const float inverse = finite && size > 1e-30f ? 127 / size : 0.f;
    const float scale = !finite ? __builtin_nanf("") : inverse > 0 ? size / 127 : 0.f;
    __m512i sum = _mm512_setzero_si512();
    for (std::int64_t d = begin; d < end; d += 16) {
      const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x + d), _mm512_set1_ps(inverse));
      const __m512i codes = finite ? _mm512_cvtps_epi32(scaled) : _mm512_setzero_si512();
      sum = _mm512_add_epi32(sum, codes);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + d / 4), _mm512_cvtepi32_epi8(codes));
    }
    const auto offset = static_cast<std::int32_t>(-kBytesOffset * _mm512_reduce_add_epi32(sum));
    std::memcpy(scales, &scale, sizeof scale);
    std::memcpy(scales + 1, &offset, sizeof offset);
  }
}

// A query's products with keys, times both scales.
QUIRE_INLINE void add_scaled_score(__m512i total, __m512 key_scale, const std::uint32_t* query_scale, __m512& score) {
  float scale;
  std::memcpy(&scale, query_scale, sizeof scale);
  score = _mm512_fmadd_ps(_mm512_cvtepi32_ps(total), _mm512_mul_ps(key_scale, _mm512_set1_ps(scale)), score);
}

// scales_at: where a query has those, after its codes.
template <int kQueries, int kLinesEach>
struct ScoreBytes {
  static void call(const ByteTile& keys, const std::uint32_t* const* queries, std::int64_t scales_at,
                   float* const* scores) {
    const std::uint32_t* codes = keys.codes;
    const float* key_scales = keys.scales;
    __m512 score[kQueries][2];
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA { score[i][0] = score[i][1] = _mm512_setzero_ps(); });
    for (std::int64_t begin = 0; begin < keys.dim; begin += kByteDims, scales_at += 2, key_scales += kLine) {
      const std::int64_t fours = (begin + kByteDims < keys.dim ? kByteDims : keys.dim - begin) / 4;
      __m512i total[kQueries][2];
      unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
        total[i][0] = total[i][1] = _mm512_set1_epi32(static_cast<std::int32_t>(queries[i][scales_at + 1]));
      });
      for (std::int64_t n = begin / 4; n < begin / 4 + fours; ++n, codes += kLine) {
        fetch_with_step<kLinesEach>(keys.next, n);
        const __m512i left = _mm512_load_si512(codes), right = _mm512_load_si512(codes + 16);
        unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
          const __m512i query = _mm512_set1_epi32(static_cast<std::int32_t>(queries[i][n]));
          total[i][0] = _mm512_dpbusd_epi32(total[i][0], left, query);
          total[i][1] = _mm512_dpbusd_epi32(total[i][1], right, query);
        });
      }
      unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
        unrolled<2>([&](auto half) QUIRE_LAMBDA {
          add_scaled_score(total[i][half], _mm512_load_ps(key_scales + 16 * half), queries[i] + scales_at,
                           score[i][half]);
        });
      });
    }
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
      _mm512_storeu_ps(scores[i], score[i][0]);
      _mm512_storeu_ps(scores[i] + 16, score[i][1]);
    });
  }
};

#endif

}  // namespace
}  // namespace quire
