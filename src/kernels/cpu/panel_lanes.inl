// The 16 rows of a panel as lanes: of one vector of 512 bits where there is such, else of two of 256.
#include "kernels/cpu/unpack.inl"

namespace quire {
namespace {

#if defined(__AVX512VNNI__)
constexpr int kLaneVectors = 1;
#else
constexpr int kLaneVectors = 2;
#endif
constexpr int kLaneBytes = 64 / kLaneVectors;  // of 32-bit numbers

using LaneFloats = float __attribute__((vector_size(kLaneBytes)));
using LaneInts = std::int32_t __attribute__((vector_size(kLaneBytes)));
using LaneWords = std::int16_t __attribute__((vector_size(kLaneBytes)));
using LaneUnsignedWords = std::uint16_t __attribute__((vector_size(kLaneBytes)));

QUIRE_INLINE LaneFloats as_floats(LaneInts v) { return __builtin_convertvector(v, LaneFloats); }

#if defined(__AVX512VNNI__)

QUIRE_INLINE LaneFloats spread(const float* x) { return _mm512_set1_ps(*x); }
// Two numbers, in every lane.
QUIRE_INLINE LaneWords spread_pair(const std::int16_t* p) {
  std::int32_t pair;
  std::memcpy(&pair, p, sizeof pair);
  return reinterpret_cast<LaneWords>(_mm512_set1_epi32(pair));
}
QUIRE_INLINE LaneFloats multiply_add(LaneFloats a, LaneFloats b, LaneFloats c) { return _mm512_fmadd_ps(a, b, c); }
// sum += a[2i] * b[2i] + a[2i + 1] * b[2i + 1] in lane i
QUIRE_INLINE void add_products(LaneWords a, LaneWords b, LaneInts& sum) {
  sum = reinterpret_cast<LaneInts>(
      _mm512_dpwssd_epi32(reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
QUIRE_INLINE LaneFloats load_halves(const std::uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

#else

QUIRE_INLINE LaneFloats spread(const float* x) { return broadcast_at(x); }
QUIRE_INLINE LaneWords spread_pair(const std::int16_t* p) { return pair_at(p); }
QUIRE_INLINE LaneFloats multiply_add(LaneFloats a, LaneFloats b, LaneFloats c) { return fma(a, b, c); }
QUIRE_INLINE void add_products(LaneWords a, LaneWords b, LaneInts& sum) { add_pairs(a, b, sum); }
QUIRE_INLINE LaneFloats load_halves(const std::uint16_t* p) { return load8_f16(p); }

#endif

template <class F>
QUIRE_INLINE LaneFloats load_scales(const std::uint8_t* at) {
  if constexpr (F::kScales == Scales::f16) return load_halves(reinterpret_cast<const std::uint16_t*>(at));
  return load_bytes<LaneFloats>(at);
}

// The first or the second pair in words of bytes.
template <int kPair>
QUIRE_INLINE LaneWords byte_of(LaneWords words) {
  return (kPair == 0 ? words << 8 : words) >> 8;
}

// Nibble i of four in each word.
template <class F, int kPair>
QUIRE_INLINE LaneWords nibble(LaneWords words) {
  if constexpr (F::kCodes == Codes::signed_nibbles) {
    return words << (12 - 4 * kPair) >> 12;
  } else {
    const LaneUnsignedWords down = reinterpret_cast<LaneUnsignedWords>(words) >> (4 * kPair);
    return reinterpret_cast<LaneWords>(kPair == 3 ? down : down & 15);
  }
}

}  // namespace
}  // namespace quire
