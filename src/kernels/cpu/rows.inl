// Row-wise float kernels: norms, activations, conversions, products with float weights.

namespace quire {
namespace {

void rms_norm_row(const float* x, const float* weight, float epsilon, std::int64_t dim, float* out) {
  F8 squares = broadcast(0);
  std::int64_t i = 0;
  for (; i + 8 <= dim; i += 8) squares = fma(load8(x + i), load8(x + i), squares);
  if (i < dim) squares = fma(load_part(x + i, dim - i), load_part(x + i, dim - i), squares);
  const float mean = horizontal_sum(squares) / static_cast<float>(dim);
  const F8 inverse = broadcast(1.f / __builtin_sqrtf(mean + epsilon));
  for (i = 0; i + 8 <= dim; i += 8) store8(out + i, load8(x + i) * inverse * load8(weight + i));
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

// A head's first 2 * half dimensions, turned by the angles of its position.
void rope_head(float* x, const float* cos, const float* sin, std::int64_t half, bool adjacent_pairs) {
  std::int64_t i = 0;
  for (; !adjacent_pairs && i + 8 <= half; i += 8) {
    const F8 a = load8(x + i), b = load8(x + i + half), c = load8(cos + i), s = load8(sin + i);
    store8(x + i, a * c - b * s);
    store8(x + i + half, a * s + b * c);
  }
  const std::int64_t step = adjacent_pairs ? 2 : 1, apart = adjacent_pairs ? 1 : half;
  for (; i < half; ++i) {
    const float a = x[step * i], b = x[step * i + apart];
    x[step * i] = a * cos[i] - b * sin[i];
    x[step * i + apart] = a * sin[i] + b * cos[i];
  }
}

QUIRE_INLINE F8 silu8(F8 x) { return x / (broadcast(1) + exp8(-x)); }

// 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3)
QUIRE_INLINE F8 gelu8(F8 x) {
  const F8 twice_u = broadcast(1.5957691216f) * (x + broadcast(0.044715f) * x * x * x);
  return x / (broadcast(1) + exp8(-twice_u));
}

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
void silu_row(const float* gate, const float* up, std::int64_t dim, float* out) {
  activate_row<silu8>(gate, up, dim, out);
}
void gelu_row(const float* gate, const float* up, std::int64_t dim, float* out) {
  activate_row<gelu8>(gate, up, dim, out);
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
