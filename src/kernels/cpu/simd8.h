// Eight floats at a time, by the compilers' vector extension: one AVX register where the file is
// compiled for AVX2, two SSE registers or plain code elsewhere. In an unnamed namespace on
// purpose: each file that includes it has its own copy, compiled with its own flags.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__AVX2__)
#include <immintrin.h>
#else
#include "core/half.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#endif

namespace quire {
namespace {

#define QUIRE_INLINE inline __attribute__((always_inline))

// body(0), body(1), ... with constants: compilers keep arrays in registers only where every index is one
// before they unroll loops themselves.
template <int kCount, int kFirst = 0, class Body>
QUIRE_INLINE void unrolled(Body&& body) {
  if constexpr (kFirst < kCount) {
    body(std::integral_constant<int, kFirst>{});
    unrolled<kCount, kFirst + 1>(body);
  }
}
#define QUIRE_LAMBDA __attribute__((always_inline))

using F8 = float __attribute__((vector_size(32)));
using I8 = std::int32_t __attribute__((vector_size(32)));
using U8 = std::uint32_t __attribute__((vector_size(32)));
using S16 = std::int16_t __attribute__((vector_size(32)));

QUIRE_INLINE F8 broadcast(float x) { return F8{x, x, x, x, x, x, x, x}; }

// In every lane; as an instruction of its own, else compilers multiply scalars first and then spread each product.
QUIRE_INLINE F8 broadcast_at(const float* p) {
#if defined(__AVX2__)
  return _mm256_broadcast_ss(p);
#else
  return broadcast(*p);
#endif
}

QUIRE_INLINE F8 load8(const float* p) {
  F8 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
QUIRE_INLINE void store8(float* p, F8 v) { std::memcpy(p, &v, sizeof v); }

// n of 8, the rest zero; n of 8 written.
QUIRE_INLINE F8 load_part(const float* p, std::int64_t n) {
  F8 v = broadcast(0);
  std::memcpy(&v, p, static_cast<std::size_t>(n) * sizeof(float));
  return v;
}
QUIRE_INLINE void store_part(float* p, F8 v, std::int64_t n) {
  std::memcpy(p, &v, static_cast<std::size_t>(n) * sizeof(float));
}

// Contraction is off for these files, so that this is the only place where products and sums fuse.
QUIRE_INLINE F8 fma(F8 a, F8 b, F8 c) {
#if defined(__AVX2__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

QUIRE_INLINE F8 to_floats(I8 v) { return __builtin_convertvector(v, F8); }

// Two numbers, eight times.
QUIRE_INLINE S16 pair_at(const std::int16_t* p) {
  std::int32_t pair;
  std::memcpy(&pair, p, sizeof pair);
  const I8 pairs{pair, pair, pair, pair, pair, pair, pair, pair};
  return reinterpret_cast<S16>(pairs);
}

// Lane i: a[2i] * b[2i] + a[2i + 1] * b[2i + 1]
QUIRE_INLINE I8 multiply_pairs(S16 a, S16 b) {
#if defined(__AVX2__)
  return reinterpret_cast<I8>(_mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__SSE2__)
  __m128i x[2], y[2];
  std::memcpy(x, &a, sizeof a);
  std::memcpy(y, &b, sizeof b);
  for (int i = 0; i < 2; ++i) x[i] = _mm_madd_epi16(x[i], y[i]);
  I8 sums;
  std::memcpy(&sums, x, sizeof sums);
  return sums;
#else
  I8 sums;
  for (int i = 0; i < 8; ++i) sums[i] = a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
  return sums;
#endif
}

// sum += the products of pairs, now: compilers would rather make all products of a block first and add them
// later, for which there are not enough registers.
QUIRE_INLINE void add_pairs(S16 a, S16 b, I8& sum) {
  sum += multiply_pairs(a, b);
#if defined(__AVX2__)
  asm("" : "+x"(sum));
#endif
}

// a > b ? a : b, and a < b ? a : b; as instructions of their own, else compilers compare and blend.
QUIRE_INLINE F8 max8(F8 a, F8 b) {
#if defined(__AVX2__)
  return _mm256_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}
QUIRE_INLINE F8 min8(F8 a, F8 b) {
#if defined(__AVX2__)
  return _mm256_min_ps(a, b);
#else
  return a < b ? a : b;
#endif
}

// Lane i is joined with i + 4, then i + 2, then i + 1.
QUIRE_INLINE float horizontal_sum(F8 v) {
  v = v + __builtin_shufflevector(v, v, 4, 5, 6, 7, 4, 5, 6, 7);
  v = v + __builtin_shufflevector(v, v, 2, 3, 2, 3, 4, 5, 6, 7);
  return v[0] + v[1];
}
QUIRE_INLINE float horizontal_max(F8 v) {
  v = max8(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 4, 5, 6, 7));
  v = max8(v, __builtin_shufflevector(v, v, 2, 3, 2, 3, 4, 5, 6, 7));
  return v[0] > v[1] ? v[0] : v[1];
}

// exp for x in [-87, 88], clamped to it. x = n ln 2 + r with |r| <= ln 2 / 2; exp(r) by the polynomial of the sixth
// degree that is nearest to it relatively (2e-9), of those that begin with 1 + r.
QUIRE_INLINE F8 exp8(F8 x) {
  x = min8(max8(x, broadcast(-87.f)), broadcast(88.f));
  const F8 magic = broadcast(0x1.8p23f);  // adding it rounds to an integer, held in the low bits
  const F8 shifted = fma(x, broadcast(1.44269504f), magic);
  const F8 n = shifted - magic;
  // ln 2 in two parts, the first short enough for n times it to be exact.
  F8 r = fma(n, broadcast(-0.693359375f), x);
  r = fma(n, broadcast(2.12194440e-4f), r);
  F8 series = broadcast(0.0013836793f);
  series = fma(series, r, broadcast(0.0083748568f));
  series = fma(series, r, broadcast(0.0416682288f));
  series = fma(series, r, broadcast(0.166664198f));
  series = fma(series, r, broadcast(0.4999999106f));
  series = fma(series, r, broadcast(1.f));
  series = fma(series, r, broadcast(1.f));
  I8 bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 23) + 0x3F800000;  // 2^n
  F8 power;
  std::memcpy(&power, &bits, sizeof power);
  return series * power;
}

#if defined(__AVX2__)
QUIRE_INLINE F8 load8_f16(const std::uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
QUIRE_INLINE float load_f16(const std::uint16_t* p) { return _cvtsh_ss(*p); }
QUIRE_INLINE std::uint16_t to_f16_one(float x) { return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }
QUIRE_INLINE void store8_f16(std::uint16_t* p, F8 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
#else
QUIRE_INLINE float load_f16(const std::uint16_t* p) { return f16_to_f32(*p); }
QUIRE_INLINE std::uint16_t to_f16_one(float x) { return f32_to_f16(x); }
QUIRE_INLINE F8 load8_f16(const std::uint16_t* p) {
  F8 v;
  for (int i = 0; i < 8; ++i) v[i] = f16_to_f32(p[i]);
  return v;
}
QUIRE_INLINE void store8_f16(std::uint16_t* p, F8 v) {
  for (int i = 0; i < 8; ++i) p[i] = f32_to_f16(v[i]);
}
#endif

QUIRE_INLINE F8 load8_bf16(const std::uint16_t* p) {
#if defined(__AVX2__)
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
#else
  U8 bits;
  for (int i = 0; i < 8; ++i) bits[i] = static_cast<std::uint32_t>(p[i]) << 16;
  F8 v;
  std::memcpy(&v, &bits, sizeof v);
  return v;
#endif
}
// Rounds to nearest even; a NaN stays one.
QUIRE_INLINE void store8_bf16(std::uint16_t* p, F8 v) {
  U8 bits;
  std::memcpy(&bits, &v, sizeof bits);
  const U8 rounded = bits + 0x7FFFu + (bits >> 16 & 1u), quiet = bits | 0x400000u;
  bits = v == v ? rounded : quiet;
  for (int i = 0; i < 8; ++i) p[i] = static_cast<std::uint16_t>(bits[i] >> 16);
}

// Columns become rows: out[i][j] = in[j][i].
QUIRE_INLINE void transpose8(F8 (&v)[8]) {
  F8 a[8], b[8];
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = __builtin_shufflevector(v[2 * i], v[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    a[2 * i + 1] = __builtin_shufflevector(v[2 * i], v[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 2; ++i) {
    b[4 * i] = __builtin_shufflevector(a[4 * i], a[4 * i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    b[4 * i + 1] = __builtin_shufflevector(a[4 * i], a[4 * i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    b[4 * i + 2] = __builtin_shufflevector(a[4 * i + 1], a[4 * i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    b[4 * i + 3] = __builtin_shufflevector(a[4 * i + 1], a[4 * i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int i = 0; i < 4; ++i) {
    v[i] = __builtin_shufflevector(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    v[i + 4] = __builtin_shufflevector(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

}  // namespace
}  // namespace quire
