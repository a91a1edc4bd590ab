#include "kv/minicache.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

#include "core/check.h"

namespace quire::minicache {
namespace {

double length(std::span<const float> row) {
  double squares = 0;
  for (const float x : row) squares += double{x} * x;
  return std::sqrt(squares);
}

// By the sides of the rhombus that the unit vectors span: acos loses half the digits of small angles.
double angle(std::span<const float> a, double length_a, std::span<const float> b, double length_b) {
  double sum = 0, difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i] / length_a, y = b[i] / length_b;
    sum += (x + y) * (x + y);
    difference += (x - y) * (x - y);
  }
  return 2 * std::atan2(std::sqrt(difference), std::sqrt(sum));
}

struct Weights {
  double a, b;  // of the unit vectors
};

Weights slerp(double angle, double t) {
  if (angle == 0) return {1 - t, t};
  return {std::sin((1 - t) * angle) / std::sin(angle), std::sin(t * angle) / std::sin(angle)};
}

}  // namespace

MergedRow merge(std::span<const float> a, std::span<const float> b, double t) {
  QUIRE_ASSERT(a.size() == b.size(), "rows of two layers with one shape");
  QUIRE_ASSERT(t >= 0 && t <= 1, "between a and b");
  const double length_a = length(a), length_b = length(b);
  MergedRow merged{std::vector<float>(a.size()), static_cast<float>(length_a), static_cast<float>(length_b)};
  Weights weights{length_a >= length_b ? 1.0 : 0.0, length_a >= length_b ? 0.0 : 1.0};
  if (length_a > 0 && length_b > 0) {
    constexpr double kOpposite = std::numbers::pi - 1e-5;  // beyond, the rows' own rounding says where the sum points
    const double between = angle(a, length_a, b, length_b);
    if (between < kOpposite) weights = slerp(between, t);
  }
  const double scale_a = length_a > 0 ? weights.a / length_a : 0, scale_b = length_b > 0 ? weights.b / length_b : 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    merged.direction[i] = static_cast<float>(a[i] * scale_a + b[i] * scale_b);
  }
  return merged;
}

std::vector<float> restore(std::span<const float> direction, float magnitude) {
  std::vector<float> row(direction.begin(), direction.end());
  for (float& x : row) x *= magnitude;
  return row;
}

double angular_distance(std::span<const float> a, std::span<const float> b) {
  QUIRE_ASSERT(a.size() == b.size(), "rows of two layers with one shape");
  const double length_a = length(a), length_b = length(b);
  if (!std::isfinite(length_a) || !std::isfinite(length_b)) return 1;
  if (length_a == 0 || length_b == 0) return 0;
  return angle(a, length_a, b, length_b) / std::numbers::pi;
}

std::int64_t unmerged_count(std::int64_t tokens, double gamma) {
  QUIRE_ASSERT(gamma >= 0 && gamma <= 1, "a share of the tokens");
  constexpr double kRounding = 1e-9;  // 5 % of 20 are one, whatever 0.05 is in binary
  return static_cast<std::int64_t>(std::ceil(gamma * static_cast<double>(tokens) - kRounding));
}

std::vector<std::int64_t> unmerged_tokens(std::span<const float> a, std::span<const float> b, std::int64_t dim,
                                          double gamma) {
  QUIRE_ASSERT(a.size() == b.size() && dim > 0 && std::ssize(a) % dim == 0, "tiles of two layers with one shape");
  const auto width = static_cast<std::size_t>(dim);
  std::vector<double> distances;
  for (std::size_t at = 0; at < a.size(); at += width) {
    distances.push_back(angular_distance(a.subspan(at, width), b.subspan(at, width)));
  }
  std::vector<std::int64_t> tokens(distances.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  std::ranges::stable_sort(tokens, std::greater{},
                           [&](std::int64_t t) { return distances[static_cast<std::size_t>(t)]; });
  tokens.resize(static_cast<std::size_t>(unmerged_count(std::ssize(tokens), gamma)));
  std::ranges::sort(tokens);
  return tokens;
}

std::int64_t pair_bytes(std::int64_t tokens, std::int64_t unmerged, std::int64_t dim, std::int64_t value_bytes) {
  QUIRE_ASSERT(unmerged >= 0 && unmerged <= tokens && tokens <= 256, "one byte names a token");
  return tokens * (dim * value_bytes + 2 * 4) + unmerged * (dim * value_bytes + 1);
}

}  // namespace quire::minicache
