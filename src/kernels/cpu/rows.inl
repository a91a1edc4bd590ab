// Row-wise float kernels: norms, activations, conversions, products with float weights.

namespace quire {
namespace {

// In sums of their own, so that none waits for the one before.
QUIRE_INLINE float sum_of_squares(const float* x, std::int64_t dim) {
  constexpr int kSums = 4;
  F8 sums[kSums];
  for (F8& sum : sums) sum = broadcast(0);
  std::int64_t i = 0;
  for (; i + 8 * kSums <= dim; i += 8 * kSums) {
    unrolled<kSums>([&](auto v) QUIRE_LAMBDA { sums[v] = fma(load8(x + i + 8 * v), load8(x + i + 8 * v), sums[v]); });
  }
  for (; i + 8 <= dim; i += 8) sums[0] = fma(load8(x + i), load8(x + i), sums[0]);
  if (i < dim) sums[1] = fma(load_part(x + i, dim - i), load_part(x + i, dim - i), sums[1]);
  return horizontal_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

void rms_norm_row(const float* x, const float* weight, float epsilon, std::int64_t dim, float* out) {
  const float mean = sum_of_squares(x, dim) / static_cast<float>(dim);
  const F8 inverse = broadcast(1.f / __builtin_sqrtf(mean + epsilon));
  std::int64_t i = 0;
  for (; i + 8 <= dim; i += 8) store8(out + i, load8(x + i) * inverse * load8(weight + i));
  if (i < dim) {
    store_part(out + i, load_part(x + i, dim - i) * inverse * load_part(weight + i, dim - i), dim - i);
  }
}

void layer_norm_row(const float* x, const float* weight, const float* bias, float epsilon, std::int64_t dim,
                    float* out) {
  float sum = 0;
  for (std::int64_t i = 0; i < dim; ++i) sum += x[i];
  const float mean = sum / static_cast<float>(dim);
  float squares = 0;
  for (std::int64_t i = 0; i < dim; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const float inverse = 1.f / __builtin_sqrtf(squares / static_cast<float>(dim) + epsilon);
  for (std::int64_t i = 0; i < dim; ++i) {
    out[i] = (x[i] - mean) * inverse * weight[i] + (bias != nullptr ? bias[i] : 0.f);
  }
}

void scale_row(const float* x, float factor, std::int64_t dim, float* out) {
  std::int64_t i = 0;
  for (; i + 8 <= dim; i += 8) store8(out + i, load8(x + i) * broadcast(factor));
  for (; i < dim; ++i) out[i] = x[i] * factor;
}

// Four numbers, each twice.
QUIRE_INLINE F8 load_twice(const float* p) {
  float __attribute__((vector_size(16))) v;
  std::memcpy(&v, p, sizeof v);
  return __builtin_shufflevector(v, v, 0, 0, 1, 1, 2, 2, 3, 3);
}

// A head's first 2 * half dimensions, turned by the angles of its position.
void rope_head(float* x, const float* cos, const float* sin, std::int64_t half, bool adjacent_pairs) {
  std::int64_t i = 0;
  for (; !adjacent_pairs && i + 8 <= half; i += 8) {
    const F8 a = load8(x + i), b = load8(x + i + half), c = load8(cos + i), s = load8(sin + i);
    store8(x + i, a * c - b * s);
    store8(x + i + half, a * s + b * c);
  }
  for (; adjacent_pairs && i + 4 <= half; i += 4) {
    const F8 ab = load8(x + 2 * i), ba = __builtin_shufflevector(ab, ab, 1, 0, 3, 2, 5, 4, 7, 6);
    const F8 minus_plus{-1, 1, -1, 1, -1, 1, -1, 1};
    store8(x + 2 * i, ab * load_twice(cos + i) + ba * load_twice(sin + i) * minus_plus);
  }
  const std::int64_t step = adjacent_pairs ? 2 : 1, apart = adjacent_pairs ? 1 : half;
  for (; i < half; ++i) {
    const float a = x[step * i], b = x[step * i + apart];
    x[step * i] = a * cos[i] - b * sin[i];
    x[step * i + apart] = a * sin[i] + b * cos[i];
  }
}

// 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3)
template <class V>
QUIRE_INLINE V twice_gelu_slope(V x) {
  return 1.5957691216f * (x + 0.044715f * x * x * x);
}

#if defined(__AVX512F__)

// x / (1 + exp(-u)). exp by the polynomial of the fifth degree nearest to 2^r relatively (8e-8) for |r| <= 1/2.
QUIRE_INLINE __m512 gated(__m512 x, __m512 u) {
  __m512 power = _mm512_mul_ps(u, _mm512_set1_ps(-1.44269504f));
  power = _mm512_min_ps(_mm512_max_ps(power, _mm512_set1_ps(-126.f)), _mm512_set1_ps(126.f));
  const __m512 whole = _mm512_roundscale_ps(power, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 rest = _mm512_sub_ps(power, whole);
  __m512 series = _mm512_set1_ps(0.00132764562f);
  series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(0.00967554096f));
  series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(0.0555071346f));
  series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(0.240221202f));
  series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(0.693146944f));
  series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(1.00000012f));
  const __m512 below = _mm512_add_ps(_mm512_scalef_ps(series, whole), _mm512_set1_ps(1.f));
  const __m512 near = _mm512_rcp14_ps(below);  // and a step of Newton's
  return _mm512_mul_ps(x, _mm512_mul_ps(near, _mm512_fnmadd_ps(below, near, _mm512_set1_ps(2.f))));
}
QUIRE_INLINE __m512 silu(__m512 x) { return gated(x, x); }
QUIRE_INLINE __m512 gelu(__m512 x) { return gated(x, twice_gelu_slope(x)); }

template <__m512 (*kActivate)(__m512)>
QUIRE_INLINE void activate_row(const float* gate, const float* up, std::int64_t dim, float* out) {
  for (std::int64_t i = 0; i < dim; i += 16) {
    const auto here = static_cast<__mmask16>(dim - i >= 16 ? 0xFFFFu : (1u << (dim - i)) - 1u);
    const __m512 y = kActivate(_mm512_maskz_loadu_ps(here, gate + i));
    _mm512_mask_storeu_ps(out + i, here, up != nullptr ? _mm512_mul_ps(y, _mm512_maskz_loadu_ps(here, up + i)) : y);
  }
}

#else

QUIRE_INLINE F8 silu(F8 x) { return x / (broadcast(1) + exp8(-x)); }
QUIRE_INLINE F8 gelu(F8 x) { return x / (broadcast(1) + exp8(-twice_gelu_slope(x))); }

template <F8 (*kActivate)(F8)>
QUIRE_INLINE void activate_row(const float* gate, const float* up, std::int64_t dim, float* out) {
  std::int64_t i = 0;
  for (; i + 8 <= dim; i += 8) {
    const F8 y = kActivate(load8(gate + i));
    store8(out + i, up != nullptr ? y * load8(up + i) : y);
  }
  if (i < dim) {
    const F8 y = kActivate(load_part(gate + i, dim - i));
    store_part(out + i, up != nullptr ? y * load_part(up + i, dim - i) : y, dim - i);
  }
}

#endif

void silu_row(const float* gate, const float* up, std::int64_t dim, float* out) {
  activate_row<silu>(gate, up, dim, out);
}
void gelu_row(const float* gate, const float* up, std::int64_t dim, float* out) {
  activate_row<gelu>(gate, up, dim, out);
}

void unpack_row_f32(DType type, const std::byte* source, std::int64_t cols, float* out) {
  if (type == DType::f32) {
    std::memcpy(out, source, static_cast<std::size_t>(cols) * sizeof(float));
    return;
  }
  const auto* half = reinterpret_cast<const std::uint16_t*>(source);
  if (type == DType::f16) {
    for (std::int64_t i = 0; i < cols; ++i) out[i] = load_f16(half + i);
    return;
  }
  for (std::int64_t i = 0; i < cols; ++i) {  // bf16
    const std::uint32_t bits = static_cast<std::uint32_t>(half[i]) << 16;
    std::memcpy(out + i, &bits, sizeof bits);
  }
}

template <int kRows>
QUIRE_INLINE void dot_rows_f32(const float* weights, const float* x, std::int64_t cols, float* out) {
  F8 sums[kStripRows][kRows] = {};
  std::int64_t c = 0;
  for (; c + 8 <= cols; c += 8) {
    for (int n = 0; n < kStripRows; ++n) {
      const F8 w = load8(weights + n * cols + c);
      for (int r = 0; r < kRows; ++r) sums[n][r] = fma(w, load8(x + r * cols + c), sums[n][r]);
    }
  }
  for (int n = 0; n < kStripRows && c < cols; ++n) {
    const F8 w = load_part(weights + n * cols + c, cols - c);
    for (int r = 0; r < kRows; ++r) sums[n][r] = fma(w, load_part(x + r * cols + c, cols - c), sums[n][r]);
  }
  for (int r = 0; r < kRows; ++r) {
    for (int n = 0; n < kStripRows; ++n) out[r * kStripRows + n] = horizontal_sum(sums[n][r]);
  }
}

void dot_strip_f32(const float* weights, const float* x, std::int64_t cols, std::int64_t row_begin,
                   std::int64_t row_end, float* out) {
  std::int64_t r = row_begin;
  for (; r + 2 <= row_end; r += 2, out += 2 * kStripRows) dot_rows_f32<2>(weights, x + r * cols, cols, out);
  if (r < row_end) dot_rows_f32<1>(weights, x + r * cols, cols, out);
}

}  // namespace
}  // namespace quire
