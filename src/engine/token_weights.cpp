#include "engine/token_weights.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/check.h"

namespace quire {
namespace {

// Four at a time: a vocabulary is long, and every sequence has one in every step.
using F4 = float __attribute__((vector_size(16)));
using I4 = std::int32_t __attribute__((vector_size(16)));
constexpr std::size_t kLanes = 4, kBlock = 256;
constexpr float kLowest = -80;

void load(const float* from, F4& to) { std::memcpy(&to, from, sizeof to); }

F4 splat(float x) { return F4{} + x; }

// exp for x in [-80, 0]. x = n ln 2 + r with |r| <= ln 2 / 2, and exp(r) by its series, to 2e-7 of it.
F4 exp_of(F4 x) {
  const F4 magic = splat(0x1.8p23f);  // adding it rounds to an integer, which is then in the low bits
  const F4 shifted = x * splat(1.44269504f) + magic;
  const F4 n = shifted - magic;
  const F4 r = (x - n * splat(0.693359375f)) + n * splat(2.12194440e-4f);  // ln 2 in two parts, the first a short one
  F4 series = splat(1 / 720.f);
  for (const float c : {1 / 120.f, 1 / 24.f, 1 / 6.f, 1 / 2.f, 1.f, 1.f}) series = series * r + splat(c);
  I4 bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 23) + 0x3F800000;  // 2^n
  F4 power;
  std::memcpy(&power, &bits, sizeof power);
  return series * power;
}

double sum_of(const F4& lanes) {
  double sum = 0;
  for (std::size_t i = 0; i < kLanes; ++i) sum += static_cast<double>(lanes[static_cast<int>(i)]);
  return sum;
}

}  // namespace

void TokenWeights::weigh(std::span<const float> logits, float temperature) {
  tokens_ = logits.size();
  const std::size_t blocks = (tokens_ + kBlock - 1) / kBlock;
  weights_.resize(blocks * kBlock);
  blocks_.assign(blocks, 0);
  total_ = 0;
  constexpr float kNever = -std::numeric_limits<float>::infinity(), kMost = std::numeric_limits<float>::max();
  float largest = kNever;
  for (const float x : logits) largest = x > largest ? x : largest;
  largest = std::min(largest, kMost);
  std::ranges::copy(logits, weights_.begin());
  std::fill(weights_.begin() + static_cast<std::ptrdiff_t>(tokens_), weights_.end(), kNever);
  const F4 lowest = splat(kLowest), top = splat(largest), most = splat(kMost), inverse = splat(1 / temperature);
  for (std::size_t b = 0; b < blocks && largest > kNever; ++b) {
    F4 sum{};
    float* const begin = weights_.data() + b * kBlock;
    for (float* at = begin; at < begin + kBlock; at += kLanes) {
      F4 x;
      load(at, x);
      x = ((x < most ? x : most) - top) * inverse;
      const F4 weight = x >= lowest ? exp_of(x >= lowest ? x : lowest) : F4{};
      sum += weight;
      std::memcpy(at, &weight, sizeof weight);
    }
    total_ += blocks_[b] = sum_of(sum);
  }
  if (total_ == 0) std::ranges::fill(weights_, 0.f);
}

double TokenWeights::total_from(float least) const {
  double total = 0;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    F4 sum{};
    const float* const begin = weights_.data() + b * kBlock;
    for (const float* at = begin; at < begin + kBlock; at += kLanes) {
      F4 weight;
      load(at, weight);
      sum += weight >= splat(least) ? weight : F4{};
    }
    total += sum_of(sum);
  }
  return total;
}

TokenId TokenWeights::at(double part) const {
  QUIRE_ASSERT(total_ > 0, "no token may come");
  double left = part * total_;
  std::size_t block = 0;
  for (; block + 1 < blocks_.size() && left >= blocks_[block]; ++block) left -= blocks_[block];
  while (blocks_[block] == 0) --block;  // rounding led past the last that can come
  std::size_t last = block * kBlock;
  for (std::size_t i = block * kBlock; i < (block + 1) * kBlock; ++i) {
    if (weights_[i] == 0) continue;
    last = i;
    left -= static_cast<double>(weights_[i]);
    if (left < 0) break;
  }
  return static_cast<TokenId>(last);
}

}  // namespace quire
