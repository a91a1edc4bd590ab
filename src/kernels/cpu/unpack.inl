// GGUF blocks to w = scale * q + min per half block of 16 (see isa_kernels.h), with vectors of bytes:
// in plain loops the compiler must assume that source and destination overlap. Layouts are drawn
// in kernels/ref/dequantize.cpp, which says what each must mean.

namespace quire {
namespace {

using B16 = std::uint8_t __attribute__((vector_size(16)));
using B32 = std::uint8_t __attribute__((vector_size(32)));
using W8 = std::uint32_t __attribute__((vector_size(32)));

template <class Bytes>
QUIRE_INLINE Bytes load_bytes(const std::uint8_t* p) {
  Bytes v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// 16 bytes as 16-bit numbers.
QUIRE_INLINE S16 widen(B16 v) {
#if defined(__AVX2__)
  return reinterpret_cast<S16>(_mm256_cvtepu8_epi16(reinterpret_cast<__m128i>(v)));
#else
  return __builtin_convertvector(v, S16);
#endif
}
QUIRE_INLINE S16 widen_signed(B16 v) {
#if defined(__AVX2__)
  return reinterpret_cast<S16>(_mm256_cvtepi8_epi16(reinterpret_cast<__m128i>(v)));
#else
  return widen(v) << 8 >> 8;
#endif
}

QUIRE_INLINE void store16(std::int16_t* q, S16 v) { std::memcpy(q, &v, sizeof v); }
QUIRE_INLINE void store_codes(std::int16_t* q, B32 v, std::int16_t offset = 0) {
  const B16 low = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const B16 high = __builtin_shufflevector(v, v, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
  store16(q, widen(low) - offset);
  store16(q + 16, widen(high) - offset);
}

// For bytes whose upper bits are clear: compilers shift bytes to the left by repeated addition.
template <int kBits>
QUIRE_INLINE B32 shifted_left(B32 v) {
  return reinterpret_cast<B32>(reinterpret_cast<W8>(v) << kBits);
}

// 16 signed bytes times a factor.
QUIRE_INLINE void store_scales(B16 v, float factor, float* out) {
  const S16 wide = widen_signed(v);
  for (int i = 0; i < 16; i += 8) {
    I8 eight;
    for (int j = 0; j < 8; ++j) eight[j] = wide[i + j];
    store8(out + i, to_floats(eight) * broadcast(factor));
  }
}

QUIRE_INLINE float f16_at(const std::uint8_t* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return load_f16(&bits);
}

QUIRE_INLINE void set_block(float* scale, float* min, float s, float m) {
  scale[0] = scale[1] = s;
  min[0] = min[1] = m;
}

// The low halves of 16 bytes, then the high halves.
QUIRE_INLINE void store_nibbles(std::int16_t* q, const std::uint8_t* packed, std::int16_t offset = 0) {
  const S16 v = widen(load_bytes<B16>(packed));
  store16(q, (v & 15) - offset);
  store16(q + 16, (v >> 4) - offset);
}

// The same with a fifth bit each: bit i of four bytes is that of value i.
QUIRE_INLINE void store_five_bits(std::int16_t* q, const std::uint8_t* packed, const std::uint8_t* fifths,
                                  std::int16_t offset = 0) {
  constexpr S16 kBit = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, -32768};
  std::int16_t bits[2];
  std::memcpy(bits, fifths, sizeof bits);
  const S16 v = widen(load_bytes<B16>(packed));
  // A comparison gives all ones or zeros.
  const S16 low = ((S16{} + bits[0]) & kBit) == kBit, high = ((S16{} + bits[1]) & kBit) == kBit;
  store16(q, ((v & 15) | (low & 16)) - offset);
  store16(q + 16, ((v >> 4) | (high & 16)) - offset);
}

QUIRE_INLINE void unpack_q4_0(const std::uint8_t* b, std::int16_t* q, float* scale, float*) {
  store_nibbles(q, b + 2, 8);
  scale[0] = scale[1] = f16_at(b);
}
QUIRE_INLINE void unpack_q4_1(const std::uint8_t* b, std::int16_t* q, float* scale, float* min) {
  store_nibbles(q, b + 4);
  set_block(scale, min, f16_at(b), f16_at(b + 2));
}
QUIRE_INLINE void unpack_q5_0(const std::uint8_t* b, std::int16_t* q, float* scale, float*) {
  store_five_bits(q, b + 6, b + 2, 16);
  scale[0] = scale[1] = f16_at(b);
}
QUIRE_INLINE void unpack_q5_1(const std::uint8_t* b, std::int16_t* q, float* scale, float* min) {
  store_five_bits(q, b + 8, b + 4);
  set_block(scale, min, f16_at(b), f16_at(b + 2));
}
QUIRE_INLINE void unpack_q8_0(const std::uint8_t* b, std::int16_t* q, float* scale, float*) {
  store16(q, widen_signed(load_bytes<B16>(b + 2)));
  store16(q + 16, widen_signed(load_bytes<B16>(b + 18)));
  scale[0] = scale[1] = f16_at(b);
}

constexpr std::int16_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

QUIRE_INLINE void iq4_values(const std::uint8_t* packed, std::int16_t* q) {
#if defined(__AVX2__)
  const auto* values = reinterpret_cast<const __m128i*>(kIq4Values);
  const __m128i table = _mm_packs_epi16(_mm_loadu_si128(values), _mm_loadu_si128(values + 1));  // all fit a byte
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(packed));
  const __m128i mask = _mm_set1_epi8(15);
  const __m128i low = _mm_shuffle_epi8(table, _mm_and_si128(bytes, mask));
  const __m128i high = _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16(bytes, 4), mask));
  store16(q, reinterpret_cast<S16>(_mm256_cvtepi8_epi16(low)));
  store16(q + 16, reinterpret_cast<S16>(_mm256_cvtepi8_epi16(high)));
#else
  for (int i = 0; i < 16; ++i) {
    q[i] = kIq4Values[packed[i] & 15];
    q[16 + i] = kIq4Values[packed[i] >> 4];
  }
#endif
}
QUIRE_INLINE void unpack_iq4_nl(const std::uint8_t* b, std::int16_t* q, float* scale, float*) {
  iq4_values(b + 2, q);
  scale[0] = scale[1] = f16_at(b);
}
QUIRE_INLINE void unpack_iq4_xs(const std::uint8_t* b, std::int16_t* q, float* scale, float*) {
  const float d = f16_at(b);
  const int high = b[2] | b[3] << 8;
  for (int g = 0; g < 8; ++g) {
    const int low = (b[4 + g / 2] >> (4 * (g % 2))) & 15;
    const int s = (low | ((high >> (2 * g)) & 3) << 4) - 32;
    scale[2 * g] = scale[2 * g + 1] = d * static_cast<float>(s);
    iq4_values(b + 8 + 16 * g, q + 32 * g);
  }
}

// Eight numbers from the bytes of two words, each twice.
QUIRE_INLINE void store_doubled(std::uint32_t first, std::uint32_t second, float factor, float* out) {
  const W8 words{first, first, first, first, second, second, second, second};
  const W8 bytes = (words >> W8{0, 8, 16, 24, 0, 8, 16, 24}) & 255;
  const F8 v = to_floats(reinterpret_cast<I8>(bytes)) * broadcast(factor);
  store8(out, __builtin_shufflevector(v, v, 0, 0, 1, 1, 2, 2, 3, 3));
  store8(out + 8, __builtin_shufflevector(v, v, 4, 4, 5, 5, 6, 6, 7, 7));
}

// The 12 bytes of Q4_K and Q5_K: eight 6-bit scales and eight 6-bit minima. The first four of each fill the low
// bits of bytes 0 to 7; of the others the lower four bits share bytes 8 to 11, the upper two are the rest of 0 to 7.
QUIRE_INLINE void scales_and_minima(const std::uint8_t* packed, float* scale, float* min, float d, float dmin) {
  std::uint32_t word[3];
  std::memcpy(word, packed, sizeof word);
  constexpr std::uint32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kTwo = 0x03030303;
  store_doubled(word[0] & kSix, (word[2] & kFour) | ((word[0] >> 6) & kTwo) << 4, d, scale);
  store_doubled(word[1] & kSix, ((word[2] >> 4) & kFour) | ((word[1] >> 6) & kTwo) << 4, -dmin, min);
}
QUIRE_INLINE void unpack_q4_k(const std::uint8_t* b, std::int16_t* q, float* scale, float* min) {
  scales_and_minima(b + 4, scale, min, f16_at(b), f16_at(b + 2));
  for (int pair = 0; pair < 4; ++pair) {
    const std::uint8_t* packed = b + 16 + 32 * pair;
    const auto v = load_bytes<B32>(packed);
    store_codes(q + 64 * pair, v & 15);
    store_codes(q + 64 * pair + 32, v >> 4);
  }
}
QUIRE_INLINE void unpack_q5_k(const std::uint8_t* b, std::int16_t* q, float* scale, float* min) {
  scales_and_minima(b + 4, scale, min, f16_at(b), f16_at(b + 2));
  const auto fifth = load_bytes<B32>(b + 16);
  for (int pair = 0; pair < 4; ++pair) {
    const auto v = load_bytes<B32>(b + 48 + 32 * pair);
    store_codes(q + 64 * pair, (v & 15) | shifted_left<4>((fifth >> (2 * pair)) & 1));
    store_codes(q + 64 * pair + 32, v >> 4 | shifted_left<4>((fifth >> (2 * pair + 1)) & 1));
  }
}
QUIRE_INLINE void unpack_q2_k(const std::uint8_t* b, std::int16_t* q, float* scale, float* min) {
  const auto both = load_bytes<B16>(b);
  store_scales(both & 15, f16_at(b + 80), scale);
  store_scales(both >> 4, -f16_at(b + 82), min);
  for (int g = 0; g < 8; ++g) {
    const auto v = load_bytes<B32>(b + 16 + 32 * (g / 4));
    store_codes(q + 32 * g, (v >> (2 * (g % 4))) & 3);
  }
}
QUIRE_INLINE void unpack_q3_k(const std::uint8_t* b, std::int16_t* q, float* scale, float*) {
  std::uint32_t word[3];  // 16 times 4 low bits of a scale, then 16 times 2 high bits
  std::memcpy(word, b + 96, sizeof word);
  std::uint32_t joined[4];
  for (int i = 0; i < 4; ++i) {
    joined[i] = ((word[i % 2] >> (4 * (i / 2))) & 0x0f0f0f0f) | ((word[2] >> (2 * i)) & 0x03030303) << 4;
  }
  B16 scales;
  std::memcpy(&scales, joined, sizeof scales);
  store_scales(scales - 32, f16_at(b + 108), scale);
  const auto third = load_bytes<B32>(b);
  for (int g = 0; g < 8; ++g) {
    const auto v = load_bytes<B32>(b + 32 + 32 * (g / 4));
    store_codes(q + 32 * g, ((v >> (2 * (g % 4))) & 3) | shifted_left<2>((third >> g) & 1), 4);
  }
}
QUIRE_INLINE void unpack_q6_k(const std::uint8_t* b, std::int16_t* q, float* scale, float*) {
  store_scales(load_bytes<B16>(b + 192), f16_at(b + 208), scale);
  for (int half = 0; half < 2; ++half) {
    const auto first = load_bytes<B32>(b + 64 * half), second = load_bytes<B32>(b + 64 * half + 32);
    const auto high = load_bytes<B32>(b + 128 + 32 * half);
    std::int16_t* to = q + 128 * half;
    store_codes(to, (first & 15) | shifted_left<4>(high & 3), 32);
    store_codes(to + 32, (second & 15) | shifted_left<4>((high >> 2) & 3), 32);
    store_codes(to + 64, first >> 4 | shifted_left<4>((high >> 4) & 3), 32);
    store_codes(to + 96, second >> 4 | shifted_left<4>(high >> 6), 32);
  }
}

// How a panel holds the codes of a type.
enum class Codes { nibbles, signed_nibbles, bytes };
enum class Scales { f16, f32 };  // f32: products of two numbers, which f16 would round

// What packing and products need to know of a type; without minima, unpack leaves them alone.
template <int kBlockValues, int kBlockBytes, void (*kUnpack)(const std::uint8_t*, std::int16_t*, float*, float*),
          Codes kCodesAs, Scales kScalesAs, bool kMinimaToo, bool kScalePerHalf>
struct Format {
  static constexpr int kValues = kBlockValues, kBytes = kBlockBytes;
  static constexpr Codes kCodes = kCodesAs;
  static constexpr Scales kScales = kScalesAs;
  static constexpr bool kMinima = kMinimaToo, kHalfScales = kScalePerHalf;
  static constexpr auto unpack = kUnpack;
};

template <class Body>
QUIRE_INLINE void with_format(DType type, Body&& body) {
  switch (type) {
    case DType::q4_0:
      return body(Format<32, 18, unpack_q4_0, Codes::signed_nibbles, Scales::f16, false, false>{});
    case DType::q4_1:
      return body(Format<32, 20, unpack_q4_1, Codes::nibbles, Scales::f16, true, false>{});
    case DType::q5_0:
      return body(Format<32, 22, unpack_q5_0, Codes::bytes, Scales::f16, false, false>{});
    case DType::q5_1:
      return body(Format<32, 24, unpack_q5_1, Codes::bytes, Scales::f16, true, false>{});
    case DType::q8_0:
      return body(Format<32, 34, unpack_q8_0, Codes::bytes, Scales::f16, false, false>{});
    case DType::iq4_nl:
      return body(Format<32, 18, unpack_iq4_nl, Codes::bytes, Scales::f16, false, false>{});
    case DType::iq4_xs:
      return body(Format<256, 136, unpack_iq4_xs, Codes::bytes, Scales::f32, false, false>{});
    case DType::q2_k:
      return body(Format<256, 84, unpack_q2_k, Codes::nibbles, Scales::f32, true, true>{});
    case DType::q3_k:
      return body(Format<256, 110, unpack_q3_k, Codes::signed_nibbles, Scales::f32, false, true>{});
    case DType::q4_k:
      return body(Format<256, 144, unpack_q4_k, Codes::nibbles, Scales::f32, true, false>{});
    case DType::q5_k:
      return body(Format<256, 176, unpack_q5_k, Codes::bytes, Scales::f32, true, false>{});
    case DType::q6_k:
      return body(Format<256, 210, unpack_q6_k, Codes::bytes, Scales::f32, false, true>{});
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return;  // float weights take the float path
  }
}

// x = scale * q with scale = max |x| / 32767 over each block of 32.
QUIRE_INLINE float largest_of_block(const float* x) {
  F8 top = broadcast(0);
  for (int i = 0; i < kBlock; i += 8) {
    const F8 v = load8(x + i);
    top = max8(top, max8(v, -v));
  }
  return horizontal_max(top);
}

// To nearest even, in the low bits: what adding 1.5 * 2^23 leaves there.
QUIRE_INLINE std::int32_t rounded(float x) {
  const float shifted = x + 0x1.8p23f;
  std::int32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  return bits;
}

// Of a row's first block, counted in rows of blocks; the next is kTileRows further.
QUIRE_INLINE std::int64_t place_of_row(std::int64_t row, std::int64_t cols) {
  return row / kTileRows * (cols / kBlock) * kTileRows + row % kTileRows;
}

void quantize_row(const float* x, std::int64_t row, const QuantizedRows& to) {
  const std::int64_t blocks = to.cols / kBlock;
  std::int64_t at = place_of_row(row, to.cols);
  for (std::int64_t b = 0; b < blocks; ++b, x += kBlock, at += kTileRows) {
    std::int16_t* q = to.q + at * kBlock;
    const float largest = largest_of_block(x), scale = largest / 32767;
    to.scale[at] = scale;
    // Zero for infinities and NaN too, and for blocks so small that 32767 / largest would overflow.
    const float inverse = largest > 1e-30f && largest < 1e38f ? 32767 / largest : 0.f;
    std::int32_t total = 0;
    for (int half = 0; half < 2; ++half) {
      std::int32_t sum = 0;
      for (int i = 16 * half; i < 16 * half + 16; ++i) {
        q[i] = static_cast<std::int16_t>(rounded(x[i] * inverse));
        sum += q[i];
      }
      to.half_sums[2 * at + half] = scale * static_cast<float>(sum);
      total += sum;
    }
    to.sums[at] = scale * static_cast<float>(total);
  }
}

void quantize_tile(const float* x, std::int64_t tile, std::int64_t rows, const QuantizedRows& to) {
  for (std::int64_t r = 0; r < rows; ++r) quantize_row(x + r * to.cols, tile * kTileRows + r, to);
}

}  // namespace
}  // namespace quire
