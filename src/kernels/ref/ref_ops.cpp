// The truth: plain float32, one loop per formula, no threads, no cleverness.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/half.h"
#include "kernels/ops.h"
#include "kernels/ref/dequantize.h"

namespace quire {
namespace {

void matmul(const MatmulParams& p, ThreadPool&) {
  std::vector<float> weights(static_cast<std::size_t>(p.cols));
  for (const MatmulTarget& target : p.targets) {
    const std::int64_t outputs = target.weights->rows;
    for (std::int64_t n = 0; n < outputs; ++n) {
      dequantize(target.weights->type, target.weights->row(n), weights.data(), p.cols);
      for (std::int64_t r = 0; r < p.rows; ++r) {
        const float* x = p.x + r * p.cols;
        float sum = 0;
        for (std::int64_t c = 0; c < p.cols; ++c) sum += x[c] * weights[static_cast<std::size_t>(c)];
        target.out[r * outputs + n] = sum + (target.bias ? target.bias[n] : 0.f);
      }
    }
  }
}

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

float load(const KvStream& stream, std::int64_t head, std::int64_t position, std::int64_t d) {
  const std::byte* row = stream.at(head, position);
  if (stream.type == KvType::f32) return reinterpret_cast<const float*>(row)[d];
  return f16_to_f32(reinterpret_cast<const f16_t*>(row)[d]);
}

void store(const KvStream& stream, std::int64_t head, std::int64_t position, std::int64_t d, float x) {
  std::byte* row = stream.at(head, position);
  if (stream.type == KvType::f32) {
    reinterpret_cast<float*>(row)[d] = x;
  } else {
    reinterpret_cast<f16_t*>(row)[d] = f32_to_f16(x);
  }
}

void append(const AppendParams& p, ThreadPool&) {
  for (std::int64_t r = 0; r < p.rows; ++r) {
    for (std::int64_t h = 0; h < p.kv_heads; ++h) {
      const std::int64_t from = (r * p.kv_heads + h) * p.head_dim;
      for (std::int64_t d = 0; d < p.head_dim; ++d) {
        store(p.kv.keys, h, p.first_position + r, d, p.keys[from + d]);
        store(p.kv.values, h, p.first_position + r, d, p.values[from + d]);
      }
    }
  }
}

void attention(const AttentionParams& p, ThreadPool&) {
  std::vector<float> weights;
  for (std::int64_t r = 0; r < p.rows; ++r) {
    const std::int64_t position = p.first_position + r;
    const std::int64_t first = p.window > 0 ? std::max<std::int64_t>(0, position - p.window + 1) : 0;
    for (std::int64_t h = 0; h < p.q_heads; ++h) {
      const float* q = p.q + (r * p.q_heads + h) * p.head_dim;
      const std::int64_t kv_head = h / (p.q_heads / p.kv_heads);

      weights.clear();
      float max = -std::numeric_limits<float>::infinity();
      for (std::int64_t t = first; t <= position; ++t) {
        float score = 0;
        for (std::int64_t d = 0; d < p.head_dim; ++d) score += q[d] * load(p.kv.keys, kv_head, t, d);
        score *= p.scale;
        if (p.softcap > 0) score = p.softcap * std::tanh(score / p.softcap);
        weights.push_back(score);
        max = std::max(max, score);
      }
      float sum = 0;
      for (float& w : weights) sum += w = std::exp(w - max);

      float* out = p.out + (r * p.q_heads + h) * p.head_dim;
      std::fill_n(out, p.head_dim, 0.f);
      for (std::int64_t t = first; t <= position; ++t) {
        const float w = weights[static_cast<std::size_t>(t - first)] / sum;
        for (std::int64_t d = 0; d < p.head_dim; ++d) out[d] += w * load(p.kv.values, kv_head, t, d);
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

}  // namespace

const Ops& ref_ops() {
  static constexpr Ops kOps{"ref", matmul, norm, rope, append, attention, activate, add};
  return kOps;
}

}  // namespace quire
