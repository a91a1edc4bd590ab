// Codebook formats: value = scale * level[code], one bf16 scale per token and group of 32 dimensions.
// Made for values that a rotation has made nearly Gaussian.
//
// A group's scale is fitted, not taken from its largest value. For any choice of codes the best
// scale is sum(x l) / sum(l l), and what it leaves is sum(x x) - sum(x l)^2 / sum(l l). So the
// encoder assigns codes by a few trial scales, keeps the trial with the largest sum(x l)^2 / sum(l l),
// rounds that trial's best scale to bf16 and assigns the codes anew.
//
// A fast encoder must give these bits, so the arithmetic is fixed: 32-bit floats, the operations
// of `fit` and `code_of` in their order, no fused multiply-adds, and sums in eight partial ones.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kv/format/lines.h"
#include "kv/format/scales.h"

namespace quire {

template <std::size_t Levels, std::size_t Trials>
struct Codebook {
  static constexpr std::size_t kHalf = Levels / 2;
  std::array<std::int8_t, Levels> levels;  // ascending, symmetric
  std::array<float, kHalf> magnitudes;     // those above zero
  // Magnitude i + 1 is nearer than i from the value bounds[i] / 2 on. Bounds are whole numbers, so comparing
  // the doubled value with them, or looking up its whole part in `nearest`, is the same.
  std::array<std::uint8_t, kHalf - 1> bounds;
  std::array<std::uint8_t, 256> nearest;  // number of bounds <= index
  std::array<float, Trials> trials;       // 2 / scale of each trial, for a group whose largest magnitude is 1
};

// Trial scales put the largest magnitude at 127 / fraction: beyond the outermost level, or within.
template <std::size_t Levels, std::size_t Trials>
constexpr Codebook<Levels, Trials> make_codebook(const std::array<std::int8_t, Levels>& levels,
                                                 const std::array<float, Trials>& fractions) {
  constexpr std::size_t kHalf = Levels / 2;
  Codebook<Levels, Trials> book{};
  book.levels = levels;
  for (std::size_t i = 0; i < kHalf; ++i) book.magnitudes[i] = levels[kHalf + i];
  for (std::size_t i = 0; i + 1 < kHalf; ++i) {
    book.bounds[i] = static_cast<std::uint8_t>(levels[kHalf + i] + levels[kHalf + i + 1]);
    for (std::size_t doubled = book.bounds[i]; doubled < 256; ++doubled) ++book.nearest[doubled];
  }
  for (std::size_t i = 0; i < Trials; ++i) book.trials[i] = 254.f / fractions[i];
  return book;
}

inline constexpr auto kBook2 = make_codebook(kLevels2, std::array{0.5f, 0.6f, 0.7f, 0.8f});
inline constexpr auto kBook4 = make_codebook(kLevels4, std::array{0.90f, 0.96f, 1.02f, 1.08f, 1.14f, 1.30f});
inline constexpr auto kBook5 =
    make_codebook(kLevels5, std::array{0.97f, 1.02f, 1.07f, 1.12f, 1.17f, 1.24f, 1.31f, 1.40f});

// inverse is 2 / scale. The largest doubled value any trial or fitted scale gives is below 1,000.
template <class Book>
std::size_t nearest_magnitude(const Book& book, float x, float inverse) {
  const auto doubled = static_cast<int>(std::fabs(x) * inverse);
  return book.nearest[static_cast<std::size_t>(std::min(doubled, 255))];
}

template <class Book>
std::uint8_t code_of(const Book& book, float x, float inverse) {
  const std::size_t index = nearest_magnitude(book, x, inverse);
  return static_cast<std::uint8_t>(x < 0 ? Book::kHalf - 1 - index : Book::kHalf + index);
}

// Trials that differ by rounding alone count as equal, and the first is taken: otherwise values of one
// magnitude, which many scales fit, would be encoded differently once decoded.
inline constexpr float kClearlyMore = 1.f + 0x1p-20f;

// The scale of x[0, count), whose largest magnitude is between kTinyGroup and kHugeGroup.
template <class Book>
bf16_t fit(const Book& book, const float* x, std::int64_t count, float largest) {
  const float reciprocal = 1.f / largest;
  float best_gain = 0, best_scale = 0;
  for (const float trial : book.trials) {
    const float inverse = reciprocal * trial;
    std::array<float, 8> products{};
    float squares = 0;  // of integers, below 2^24: exact in any order
    for (std::int64_t i = 0; i < count; ++i) {
      const float level = book.magnitudes[nearest_magnitude(book, x[i], inverse)];
      products[static_cast<std::size_t>(i % 8)] += std::fabs(x[i]) * level;
      squares += level * level;
    }
    for (const std::size_t step : {4u, 2u, 1u}) {
      for (std::size_t i = 0; i < step; ++i) products[i] += products[i + step];
    }
    const float scale = products[0] / squares;
    const float gain = products[0] * scale;
    if (gain > best_gain * kClearlyMore) {
      best_gain = gain;
      best_scale = scale;
    }
  }
  return f32_to_bf16(best_scale);
}

template <const auto& book, KvFormat format>
void encode_codebook(KvOrder order, const float* rows, std::int64_t dim, std::byte* tile) {
  const KvTileParts parts = kv_tile_parts(format, order, dim);
  std::memset(tile, 0, static_cast<std::size_t>(parts.bytes));
  constexpr std::int64_t kGroup = kv_group_dims(format);
  for (std::int64_t t = 0; t < kPageTokens; ++t) {
    for (std::int64_t start = 0; start < dim; start += kGroup) {
      const float* values = rows + t * dim + start;
      const std::int64_t count = std::min(kGroup, dim - start);
      const float largest = largest_magnitude(values, count);
      const bool ordinary = largest >= kTinyGroup && largest <= kHugeGroup;

      std::array<float, kGroup> x{};  // other groups, and dimensions beyond the end, get the codes of zeros
      bf16_t scale = largest < kTinyGroup ? bf16_t{0} : kNanScale;
      float inverse = 0;
      if (ordinary) {
        std::copy_n(values, count, x.begin());
        scale = fit(book, values, count, largest);
        inverse = 2.f / bf16_to_f32(scale);
      }
      store_u16(tile + parts.scales, kv_scale(format, order, dim, t, start), scale);
      const std::int64_t coded = order == KvOrder::rows ? (count + 31) / 32 * 32 : count;
      for (std::int64_t j = 0; j < coded; ++j) {
        put_code<format>(tile, parts, kv_line(order, dim, t, start + j), kv_index_in_line(order, t, start + j),
                         code_of(book, x[static_cast<std::size_t>(j)], inverse));
      }
    }
  }
}

template <const auto& book, KvFormat format>
void decode_codebook(KvOrder order, const std::byte* tile, std::int64_t dim, float* rows) {
  const KvTileParts parts = kv_tile_parts(format, order, dim);
  for (std::int64_t t = 0; t < kPageTokens; ++t) {
    for (std::int64_t d = 0; d < dim; ++d) {
      const float scale = bf16_to_f32(load_u16(tile + parts.scales, kv_scale(format, order, dim, t, d)));
      const std::uint8_t code = get_code<format>(tile, parts, kv_line(order, dim, t, d), kv_index_in_line(order, t, d));
      rows[t * dim + d] = scale * static_cast<float>(book.levels[code]);
    }
  }
}

}  // namespace quire
