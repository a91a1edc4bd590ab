// MiniCache (Liu et al., 2024): the keys, or values, of two neighbouring layers kept as one. The middle and
// late layers of a model point a token's rows in nearly the same direction, so that one direction
// stands for both and each layer keeps its own length. Tokens whose directions lie too far apart
// stay as they are.
//
// Plain functions on rows: one token, one head, the same stream of two layers a and b.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quire::minicache {

struct MergedRow {
  std::vector<float> direction;  // a unit vector; zeros where both rows are
  float magnitude_a;
  float magnitude_b;
};

// The direction goes from a's (t = 0) to b's (t = 1) along the great circle, at angle t * angle(a, b).
// Opposite rows have no shortest one: they get the longer one's direction, the cheaper mistake.
MergedRow merge(std::span<const float> a, std::span<const float> b, double t);

// A row again. Of what merge() made of rows that are not opposite, it is off by 2 |a| sin(t * angle / 2) for a,
// and by 2 |b| sin((1 - t) * angle / 2) for b, and by rounding.
std::vector<float> restore(std::span<const float> direction, float magnitude);

// angle(a, b) / pi: 0 to 1. A row of zeros is near to everything, one that is not finite far from everything.
double angular_distance(std::span<const float> a, std::span<const float> b);

// How many of a tile's tokens stay unmerged: the share gamma, rounded up.
std::int64_t unmerged_count(std::int64_t tokens, double gamma);

// Which ones, ascending: the farthest apart, of equals the first.
//   a, b: [tokens, dim]
std::vector<std::int64_t> unmerged_tokens(std::span<const float> a, std::span<const float> b, std::int64_t dim,
                                          double gamma);

// What a merged pair of tiles takes:
//   [tokens]    dim values: the direction, or a's row where the token stays unmerged
//   [tokens]    two magnitudes, 4 bytes each
//   [unmerged]  dim values: b's row, and one byte for which token it is
std::int64_t pair_bytes(std::int64_t tokens, std::int64_t unmerged, std::int64_t dim, std::int64_t value_bytes);

}  // namespace quire::minicache
