// GGUF blocks to w = scale * q + min per half block of 16 (see isa_kernels.h), with vectors of bytes:
// in plain loops the compiler must assume that source and destination overlap. Layouts are drawn
// in kernels/ref/dequantize.cpp, which says what each must mean.

namespace quire {
namespace {

using B16 = std::uint8_t __attribute__((vector_size(16)));
using B32 = std::uint8_t __attribute__((vector_size(32)));

template <class Bytes>
QUIRE_INLINE Bytes load_bytes(const std::uint8_t* p) {
  Bytes v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class Bytes>
QUIRE_INLINE void store_bytes(std::uint8_t* p, Bytes v) {
  std::memcpy(p, &v, sizeof v);
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

QUIRE_INLINE void nibbles16(const std::uint8_t* packed, std::uint8_t* q) {
  const auto v = load_bytes<B16>(packed);
  store_bytes<B16>(q, v & 15);
  store_bytes<B16>(q + 16, v >> 4);
}

// Bit i of four bytes is bit 4 of value i.
QUIRE_INLINE void add_fifth_bits(const std::uint8_t* bits, std::uint8_t* q) {
  B16 four = {};
  std::memcpy(&four, bits, 4);
  const B32 spread = __builtin_shufflevector(four, four, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2,
                                             2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  constexpr B32 kMask = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128,
                         1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  const B32 fifth = reinterpret_cast<B32>((spread & kMask) == kMask) & 16;  // a comparison gives all ones or zeros
  store_bytes<B32>(q, load_bytes<B32>(q) | fifth);
}

QUIRE_INLINE void unpack_q4_0(const std::uint8_t* b, std::uint8_t* q, float* scale, float* min) {
  nibbles16(b + 2, q);
  set_block(scale, min, f16_at(b), -8 * f16_at(b));
}
QUIRE_INLINE void unpack_q4_1(const std::uint8_t* b, std::uint8_t* q, float* scale, float* min) {
  nibbles16(b + 4, q);
  set_block(scale, min, f16_at(b), f16_at(b + 2));
}
QUIRE_INLINE void unpack_q5_0(const std::uint8_t* b, std::uint8_t* q, float* scale, float* min) {
  nibbles16(b + 6, q);
  add_fifth_bits(b + 2, q);
  set_block(scale, min, f16_at(b), -16 * f16_at(b));
}
QUIRE_INLINE void unpack_q5_1(const std::uint8_t* b, std::uint8_t* q, float* scale, float* min) {
  nibbles16(b + 8, q);
  add_fifth_bits(b + 4, q);
  set_block(scale, min, f16_at(b), f16_at(b + 2));
}
QUIRE_INLINE void unpack_q8_0(const std::uint8_t* b, std::uint8_t* q, float* scale, float*) {
  std::memcpy(q, b + 2, 32);
  scale[0] = scale[1] = f16_at(b);
}

constexpr std::int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

QUIRE_INLINE void iq4_values(const std::uint8_t* packed, std::uint8_t* q) {
#if defined(__AVX2__)
  const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kIq4Values));
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(packed));
  const __m128i mask = _mm_set1_epi8(15);
  const __m128i low = _mm_shuffle_epi8(table, _mm_and_si128(bytes, mask));
  const __m128i high = _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16(bytes, 4), mask));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(q), low);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(q + 16), high);
#else
  for (int i = 0; i < 16; ++i) {
    q[i] = static_cast<std::uint8_t>(kIq4Values[packed[i] & 15]);
    q[16 + i] = static_cast<std::uint8_t>(kIq4Values[packed[i] >> 4]);
  }
#endif
}
QUIRE_INLINE void unpack_iq4_nl(const std::uint8_t* b, std::uint8_t* q, float* scale, float*) {
  iq4_values(b + 2, q);
  scale[0] = scale[1] = f16_at(b);
}
QUIRE_INLINE void unpack_iq4_xs(const std::uint8_t* b, std::uint8_t* q, float* scale, float*) {
  const float d = f16_at(b);
  const int high = b[2] | b[3] << 8;
  for (int g = 0; g < 8; ++g) {
    const int low = (b[4 + g / 2] >> (4 * (g % 2))) & 15;
    const int s = (low | ((high >> (2 * g)) & 3) << 4) - 32;
    scale[2 * g] = scale[2 * g + 1] = d * static_cast<float>(s);
    iq4_values(b + 8 + 16 * g, q + 32 * g);
  }
}

// The 12 bytes of Q4_K and Q5_K: eight 6-bit scales and eight 6-bit minima.
QUIRE_INLINE void scale_and_min(const std::uint8_t* packed, int g, float* scale, float* min, float d, float dmin) {
  int s, m;
  if (g < 4) {
    s = packed[g] & 63;
    m = packed[g + 4] & 63;
  } else {
    s = (packed[g + 4] & 15) | (packed[g - 4] >> 6) << 4;
    m = packed[g + 4] >> 4 | (packed[g] >> 6) << 4;
  }
  set_block(scale + 2 * g, min + 2 * g, d * static_cast<float>(s), -dmin * static_cast<float>(m));
}
QUIRE_INLINE void unpack_q4_k(const std::uint8_t* b, std::uint8_t* q, float* scale, float* min) {
  for (int g = 0; g < 8; ++g) scale_and_min(b + 4, g, scale, min, f16_at(b), f16_at(b + 2));
  for (int pair = 0; pair < 4; ++pair) {
    const std::uint8_t* packed = b + 16 + 32 * pair;
    const auto v = load_bytes<B32>(packed);
    store_bytes<B32>(q + 64 * pair, v & 15);
    store_bytes<B32>(q + 64 * pair + 32, v >> 4);
  }
}
QUIRE_INLINE void unpack_q5_k(const std::uint8_t* b, std::uint8_t* q, float* scale, float* min) {
  for (int g = 0; g < 8; ++g) scale_and_min(b + 4, g, scale, min, f16_at(b), f16_at(b + 2));
  const auto fifth = load_bytes<B32>(b + 16);
  for (int pair = 0; pair < 4; ++pair) {
    const std::uint8_t* packed = b + 48 + 32 * pair;
    std::uint8_t* to = q + 64 * pair;
    const auto v = load_bytes<B32>(packed);
    store_bytes<B32>(to, (v & 15) | ((fifth >> (2 * pair)) & 1) << 4);
    store_bytes<B32>(to + 32, v >> 4 | ((fifth >> (2 * pair + 1)) & 1) << 4);
  }
}
QUIRE_INLINE void unpack_q2_k(const std::uint8_t* b, std::uint8_t* q, float* scale, float* min) {
  const float d = f16_at(b + 80), dmin = f16_at(b + 82);
  for (int h = 0; h < 16; ++h) {
    scale[h] = d * static_cast<float>(b[h] & 15);
    min[h] = -dmin * static_cast<float>(b[h] >> 4);
  }
  for (int g = 0; g < 8; ++g) {
    const auto v = load_bytes<B32>(b + 16 + 32 * (g / 4));
    store_bytes<B32>(q + 32 * g, (v >> (2 * (g % 4))) & 3);
  }
}
QUIRE_INLINE void unpack_q3_k(const std::uint8_t* b, std::uint8_t* q, float* scale, float* min) {
  const std::uint8_t* packed_scales = b + 96;
  const float d = f16_at(b + 108);
  for (int h = 0; h < 16; ++h) {
    const int low = h < 8 ? packed_scales[h] & 15 : packed_scales[h - 8] >> 4;
    const int high = (packed_scales[8 + h % 4] >> (2 * (h / 4))) & 3;
    scale[h] = d * static_cast<float>((low | high << 4) - 32);
    min[h] = -4 * scale[h];
  }
  const auto third = load_bytes<B32>(b);
  for (int g = 0; g < 8; ++g) {
    const auto v = load_bytes<B32>(b + 32 + 32 * (g / 4));
    store_bytes<B32>(q + 32 * g, ((v >> (2 * (g % 4))) & 3) | ((third >> g) & 1) << 2);
  }
}
QUIRE_INLINE void unpack_q6_k(const std::uint8_t* b, std::uint8_t* q, float* scale, float* min) {
  const float d = f16_at(b + 208);
  for (int h = 0; h < 16; ++h) {
    scale[h] = d * static_cast<float>(static_cast<std::int8_t>(b[192 + h]));
    min[h] = -32 * scale[h];
  }
  for (int half = 0; half < 2; ++half) {
    const auto first = load_bytes<B32>(b + 64 * half), second = load_bytes<B32>(b + 64 * half + 32);
    const auto high = load_bytes<B32>(b + 128 + 32 * half);
    std::uint8_t* to = q + 128 * half;
    store_bytes<B32>(to, (first & 15) | (high & 3) << 4);
    store_bytes<B32>(to + 32, (second & 15) | ((high >> 2) & 3) << 4);
    store_bytes<B32>(to + 64, first >> 4 | ((high >> 4) & 3) << 4);
    store_bytes<B32>(to + 96, second >> 4 | (high >> 6) << 4);
  }
}

template <int kValues, int kBytes, void (*kUnpack)(const std::uint8_t*, std::uint8_t*, float*, float*)>
QUIRE_INLINE void unpack_blocks(const std::uint8_t* source, std::int64_t cols, std::uint8_t* q, float* scale,
                                float* min) {
  for (std::int64_t c = 0; c < cols; c += kValues, source += kBytes) {
    __builtin_prefetch(source + 1024);  // rows follow each other in memory
    kUnpack(source, q + c, scale + c / 16, min + c / 16);
  }
}

void unpack_row(DType type, const std::byte* bytes, std::int64_t row, const UnpackedRows& to) {
  const auto* source = reinterpret_cast<const std::uint8_t*>(bytes);
  const std::int64_t cols = to.cols, halves = padded_halves(cols);
  std::uint8_t* q = to.q + row * cols;
  float* scale = to.scale + row * halves;
  float* min = to.min + row * halves;
  for (std::int64_t h = cols / 16; h < halves; ++h) min[h] = 0;
  switch (type) {
    case DType::q4_0:
      return unpack_blocks<32, 18, unpack_q4_0>(source, cols, q, scale, min);
    case DType::q4_1:
      return unpack_blocks<32, 20, unpack_q4_1>(source, cols, q, scale, min);
    case DType::q5_0:
      return unpack_blocks<32, 22, unpack_q5_0>(source, cols, q, scale, min);
    case DType::q5_1:
      return unpack_blocks<32, 24, unpack_q5_1>(source, cols, q, scale, min);
    case DType::q8_0:
      return unpack_blocks<32, 34, unpack_q8_0>(source, cols, q, scale, min);
    case DType::iq4_nl:
      return unpack_blocks<32, 18, unpack_iq4_nl>(source, cols, q, scale, min);
    case DType::iq4_xs:
      return unpack_blocks<256, 136, unpack_iq4_xs>(source, cols, q, scale, min);
    case DType::q2_k:
      return unpack_blocks<256, 84, unpack_q2_k>(source, cols, q, scale, min);
    case DType::q3_k:
      return unpack_blocks<256, 110, unpack_q3_k>(source, cols, q, scale, min);
    case DType::q4_k:
      return unpack_blocks<256, 144, unpack_q4_k>(source, cols, q, scale, min);
    case DType::q5_k:
      return unpack_blocks<256, 176, unpack_q5_k>(source, cols, q, scale, min);
    case DType::q6_k:
      return unpack_blocks<256, 210, unpack_q6_k>(source, cols, q, scale, min);
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return;  // float weights take the float path
  }
}

constexpr bool is_signed(DType type) { return type == DType::q8_0 || type == DType::iq4_nl || type == DType::iq4_xs; }
constexpr bool has_half_scales(DType type) { return type == DType::q2_k || type == DType::q3_k || type == DType::q6_k; }

// x = scale * q with scale = max |x| / 127 over each block of 32.
void quantize_row(const float* x, std::int64_t row, const QuantizedRows& to) {
  const std::int64_t blocks = to.cols / kBlock, halves = padded_halves(to.cols);
  std::int8_t* q = to.q + row * to.cols;
  float* scale = to.scale + row * blocks;
  float* sums = to.sums + row * halves;
  for (std::int64_t b = 0; b < blocks; ++b, x += kBlock, q += kBlock) {
    F8 top = broadcast(0);
    for (int i = 0; i < kBlock; i += 8) {
      const F8 v = load8(x + i);
      top = max8(top, max8(v, -v));
    }
    const float largest = horizontal_max(top);
    scale[b] = largest / 127;
    // Zero for infinities and NaN too, and for blocks so small that 127 / largest would overflow.
    const float inverse = largest > 1e-30f && largest < 1e38f ? 127 / largest : 0.f;
    for (int half = 0; half < 2; ++half) {
      std::int32_t sum = 0;
      for (int i = 16 * half; i < 16 * half + 16; ++i) {
        // Adding 1.5 * 2^23 rounds to nearest even and leaves the integer in the low bits.
        const float shifted = x[i] * inverse + 0x1.8p23f;
        std::int32_t bits;
        std::memcpy(&bits, &shifted, sizeof bits);
        q[i] = static_cast<std::int8_t>(bits);
        sum += q[i];
      }
      sums[2 * b + half] = scale[b] * static_cast<float>(sum);
    }
  }
  for (std::int64_t h = 2 * blocks; h < halves; ++h) sums[h] = 0;
}

}  // namespace
}  // namespace quire
