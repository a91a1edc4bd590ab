// The truth: plain float32, one loop per formula, no threads, no cleverness.
#include <cmath>
#include <vector>

#include "kernels/ops.h"
#include "kernels/ref/attention.h"
#include "kernels/ref/dequantize.h"

namespace quire {
namespace {

void norm(const NormParams& p, ThreadPool&) {
  for (std::int64_t r = 0; r < p.rows; ++r) {
    const float* x = p.x + r * p.dim;
    float* out = p.out + r * p.dim;
    const auto dim = static_cast<float>(p.dim);
    float mean = 0;
    if (p.kind == NormParams::Kind::layer) {
      for (std::int64_t i = 0; i < p.dim; ++i) mean += x[i];
      mean /= dim;
    }
    float squares = 0;
    for (std::int64_t i = 0; i < p.dim; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const float inverse = 1.f / std::sqrt(squares / dim + p.epsilon);
    for (std::int64_t i = 0; i < p.dim; ++i) {
      out[i] = (x[i] - mean) * inverse * p.weight[i] + (p.bias ? p.bias[i] : 0.f);
    }
  }
}

void rope(const RopeParams& p, ThreadPool&) {
  const std::int64_t half = p.rope_dim / 2;
  for (std::int64_t r = 0; r < p.rows; ++r) {
    for (std::int64_t h = 0; h < p.heads; ++h) {
      float* x = p.x + (r * p.heads + h) * p.head_dim;
      for (std::int64_t i = 0; i < half; ++i) {
        float& a = p.adjacent_pairs ? x[2 * i] : x[i];
        float& b = p.adjacent_pairs ? x[2 * i + 1] : x[i + half];
        const float cos = p.cos[r * half + i], sin = p.sin[r * half + i];
        const float rotated = a * cos - b * sin;
        b = a * sin + b * cos;
        a = rotated;
      }
    }
  }
}

float activate_one(ActivateParams::Kind kind, float x) {
  if (kind == ActivateParams::Kind::silu) return x / (1.f + std::exp(-x));
  constexpr float kSqrt2OverPi = 0.7978845608028654f;
  return 0.5f * x * (1.f + std::tanh(kSqrt2OverPi * (x + 0.044715f * x * x * x)));
}

void activate(const ActivateParams& p, ThreadPool&) {
  for (std::int64_t i = 0; i < p.rows * p.dim; ++i) {
    p.out[i] = activate_one(p.kind, p.gate[i]) * (p.up ? p.up[i] : 1.f);
  }
}

void add(const float* x, float* into, std::int64_t count, ThreadPool&) {
  for (std::int64_t i = 0; i < count; ++i) into[i] += x[i];
}

void matmul(const MatmulParams& p, ThreadPool& pool) {
  const float* all = p.x;
  std::vector<float> made;
  if (all == nullptr) {
    made.resize(static_cast<std::size_t>(p.rows * p.cols));
    all = made.data();
    if (p.normed != nullptr) {
      NormParams n = *p.normed;
      n.out = made.data();
      norm(n, pool);
    } else {
      ActivateParams a = *p.activated;
      a.out = made.data();
      activate(a, pool);
    }
  }
  std::vector<float> weights(static_cast<std::size_t>(p.cols));
  for (const MatmulTarget& target : p.targets) {
    const std::int64_t outputs = target.weights->rows;
    for (std::int64_t n = 0; n < outputs; ++n) {
      dequantize(target.weights->type, target.weights->row(n), weights.data(), p.cols);
      for (std::int64_t r = 0; r < p.rows; ++r) {
        const float* x = all + r * p.cols;
        float sum = 0;
        for (std::int64_t c = 0; c < p.cols; ++c) sum += x[c] * weights[static_cast<std::size_t>(c)];
        sum += target.bias ? target.bias[n] : 0.f;
        float& out = target.out[r * outputs + n];
        out = target.add ? out + sum : sum;
      }
    }
  }
}

}  // namespace

const Ops& ref_ops() {
  static constexpr Ops kOps{"ref",      matmul,     nullptr,       nullptr,   nullptr,      norm,     rope,
                            ref_append, ref_encode, ref_attention, ref_score, ref_hadamard, activate, add};
  return kOps;
}

}  // namespace quire
