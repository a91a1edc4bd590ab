// Random data and comparisons that the kernel tests share.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/half.h"
#include "kernels/ops.h"

namespace quire::testing_support {

inline std::vector<float> random_floats(std::int64_t count, unsigned seed, float deviation = 1.f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.f, deviation);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = normal(generator);
  return values;
}

// Every backend this machine runs, but ref.
inline std::vector<const Ops*> fast_ops() {
  std::vector<const Ops*> all;
  for (const Isa isa : kIsas) {
    if (isa <= best_isa()) all.push_back(&cpu_ops(isa));
  }
  return all;
}

inline const std::vector<DType>& all_types() {
  static const std::vector<DType> types{DType::f32,  DType::f16,  DType::bf16, DType::q4_0,   DType::q4_1,
                                        DType::q5_0, DType::q5_1, DType::q8_0, DType::q2_k,   DType::q3_k,
                                        DType::q4_k, DType::q5_k, DType::q6_k, DType::iq4_nl, DType::iq4_xs};
  return types;
}

// Writes scales, and minima, of a quantised type that keep values near 1.
inline void set_scales(DType type, std::vector<std::byte>& bytes, std::mt19937& generator) {
  std::uniform_real_distribution<float> scale(0.01f, 0.05f);
  // Where each type keeps its f16 scale and, for some, minimum.
  std::vector<std::size_t> at{0};
  if (type == DType::q4_1 || type == DType::q5_1 || type == DType::q4_k || type == DType::q5_k) at = {0, 2};
  if (type == DType::q2_k) at = {80, 82};
  if (type == DType::q3_k) at = {108};
  if (type == DType::q6_k) at = {208};
  for (std::size_t block = 0; block < bytes.size(); block += static_cast<std::size_t>(info(type).block_bytes)) {
    for (const std::size_t offset : at) {
      const f16_t half = f32_to_f16(scale(generator));
      std::memcpy(bytes.data() + block + offset, &half, 2);
    }
  }
}

// Weights of any type: random bits, with scales that keep values near 1.
inline std::vector<std::byte> random_weights(DType type, std::int64_t rows, std::int64_t cols, unsigned seed) {
  const DTypeInfo& t = info(type);
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows * cols / t.block_size * t.block_bytes));
  if (t.block_size == 1) {
    const auto values = random_floats(rows * cols, seed);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const f16_t half = type == DType::f16 ? f32_to_f16(values[i]) : f32_to_bf16(values[i]);
      if (type == DType::f32) std::memcpy(bytes.data() + 4 * i, &values[i], 4);
      if (type != DType::f32) std::memcpy(bytes.data() + 2 * i, &half, 2);
    }
    return bytes;
  }
  std::mt19937 generator(seed);
  for (std::byte& b : bytes) b = static_cast<std::byte>(generator());
  set_scales(type, bytes, generator);
  return bytes;
}

// The same of a quantised type, with every byte but those of the scales alike.
inline std::vector<std::byte> filled_weights(DType type, std::int64_t rows, std::int64_t cols, std::byte fill) {
  const DTypeInfo& t = info(type);
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows * cols / t.block_size * t.block_bytes), fill);
  std::mt19937 generator(1);
  set_scales(type, bytes, generator);
  return bytes;
}

inline float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float d = std::abs(a[i] - b[i]);
    if (!(d <= largest)) largest = d;  // a NaN is the largest difference
  }
  return largest;
}

}  // namespace quire::testing_support
