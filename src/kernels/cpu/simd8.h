// Eight floats at a time, by the compilers' vector extension: one AVX register where the file is
// compiled for AVX2, two SSE registers or plain code elsewhere. In an unnamed namespace on
// purpose: each file that includes it has its own copy, compiled with its own flags.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#else
#include "core/half.h"
#endif

namespace quire {
namespace {

#define QUIRE_INLINE inline __attribute__((always_inline))

using F8 = float __attribute__((vector_size(32)));
using I8 = std::int32_t __attribute__((vector_size(32)));

QUIRE_INLINE F8 broadcast(float x) { return F8{x, x, x, x, x, x, x, x}; }

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

QUIRE_INLINE F8 max8(F8 a, F8 b) { return a > b ? a : b; }
QUIRE_INLINE F8 min8(F8 a, F8 b) { return a < b ? a : b; }

QUIRE_INLINE float horizontal_sum(F8 v) { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }
QUIRE_INLINE float horizontal_max(F8 v) {
  float m = v[0];
  for (int i = 1; i < 8; ++i) m = v[i] > m ? v[i] : m;
  return m;
}

// exp for x in [-87, 88], clamped to it. x = n ln 2 + r with |r| <= ln 2 / 2; exp(r) by its series
// to the 7th power, whose remainder 0.347^8 / 8! is a twelfth of a float's last bit.
QUIRE_INLINE F8 exp8(F8 x) {
  x = min8(max8(x, broadcast(-87.f)), broadcast(88.f));
  const F8 magic = broadcast(0x1.8p23f);  // adding it rounds to an integer, held in the low bits
  const F8 shifted = fma(x, broadcast(1.44269504f), magic);
  const F8 n = shifted - magic;
  // ln 2 in two parts, the first short enough for n times it to be exact.
  F8 r = fma(n, broadcast(-0.693359375f), x);
  r = fma(n, broadcast(2.12194440e-4f), r);
  F8 series = broadcast(1.f / 5040);
  series = fma(series, r, broadcast(1.f / 720));
  series = fma(series, r, broadcast(1.f / 120));
  series = fma(series, r, broadcast(1.f / 24));
  series = fma(series, r, broadcast(1.f / 6));
  series = fma(series, r, broadcast(0.5f));
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
