// Products of activations with quantised weights, in integers within each block of 32 columns. Lanes are weight
// rows: every product is summed on its own, block after block, whatever is computed beside it.
#include "kernels/cpu/panels.inl"

namespace quire {
namespace {

template <int kRows>
using RowInts = LaneInts[kRows][kLaneVectors];
template <int kRows>
using RowSums = LaneFloats[kRows][kLaneVectors];

// body(row, vector) of all.
template <int kRows, class Body>
QUIRE_INLINE void each(Body&& body) {
  unrolled<kRows>([&](auto r) QUIRE_LAMBDA { unrolled<kLaneVectors>([&](auto v) QUIRE_LAMBDA { body(r, v); }); });
}

// Adds the products of one pair of columns.
template <int kRows>
QUIRE_INLINE void add_pair(const LaneWords (&weights)[kLaneVectors], const std::int16_t* q, std::int64_t cols,
                           RowInts<kRows>& sums) {
  unrolled<kRows>([&](auto r) QUIRE_LAMBDA {
    const LaneWords x = spread_pair(q + r * cols);
    unrolled<kLaneVectors>([&](auto v) QUIRE_LAMBDA { add_products(weights[v], x, sums[r][v]); });
  });
}

// Half a block: 16 columns. q: their activations in the first row.
template <class F, int kRows>
QUIRE_INLINE void add_half(const std::uint8_t* codes, const std::int16_t* q, std::int64_t cols, RowInts<kRows>& sums) {
  LaneWords weights[kLaneVectors];
  if constexpr (Panel<F>::kNibbles) {
    unrolled<2>([&](auto j) QUIRE_LAMBDA {
      LaneWords words[kLaneVectors];
      unrolled<kLaneVectors>([&](auto v)
                                 QUIRE_LAMBDA { words[v] = load_bytes<LaneWords>(codes + 64 * j + kLaneBytes * v); });
      unrolled<4>([&](auto i) QUIRE_LAMBDA {
        unrolled<kLaneVectors>([&](auto v) QUIRE_LAMBDA { weights[v] = nibble<F, i>(words[v]); });
        add_pair<kRows>(weights, q + 8 * j + 2 * i, cols, sums);
      });
    });
  } else {
    unrolled<8>([&](auto pair) QUIRE_LAMBDA {
      unrolled<kLaneVectors>([&](auto v)
                                 QUIRE_LAMBDA { weights[v] = widen_bytes(codes + 32 * pair + kLaneBytes / 2 * v); });
      add_pair<kRows>(weights, q + 2 * pair, cols, sums);
    });
  }
}

// Scales or minima of the 16 rows.
template <class F>
QUIRE_INLINE void load_factors(const std::uint8_t* from, LaneFloats (&factors)[kLaneVectors]) {
  unrolled<kLaneVectors>(
      [&](auto v) QUIRE_LAMBDA { factors[v] = load_scales<F>(from + Panel<F>::kScaleRowBytes / kLaneVectors * v); });
}

// At most 32 products of 128 and 32767 in a lane: an int32 holds them.
template <class F, int kRows>
QUIRE_INLINE void add_scaled(const RowInts<kRows>& ints, const std::uint8_t* scales, const float* x_scale,
                             std::int64_t blocks, RowSums<kRows>& sums) {
  LaneFloats scale[kLaneVectors];
  load_factors<F>(scales, scale);
  each<kRows>([&](auto r, auto v) QUIRE_LAMBDA {
    sums[r][v] = multiply_add(as_floats(ints[r][v]), scale[v] * spread(x_scale + r * blocks), sums[r][v]);
  });
}

template <class F, int kRows>
QUIRE_INLINE void add_minima(const std::uint8_t* minima, const float* x_sums, std::int64_t stride,
                             RowSums<kRows>& sums) {
  LaneFloats min[kLaneVectors];
  load_factors<F>(minima, min);
  each<kRows>([&](auto r, auto v)
                  QUIRE_LAMBDA { sums[r][v] = multiply_add(min[v], spread(x_sums + r * stride), sums[r][v]); });
}

// A single row takes less time than its weights take to come.
constexpr std::int64_t kAheadBytes = 2048;

template <class F, int kRows>
QUIRE_INLINE void dot_rows(const std::byte* panel, const QuantizedRows& x, std::int64_t row, float* out) {
  using P = Panel<F>;
  const std::int64_t blocks = x.cols / kBlock;
  const auto* block = reinterpret_cast<const std::uint8_t*>(panel);
  const std::int16_t* q = x.q + row * x.cols;
  RowSums<kRows> sums;
  each<kRows>([&](auto r, auto v) QUIRE_LAMBDA { sums[r][v] = LaneFloats{}; });
  for (std::int64_t b = 0; b < blocks; ++b, block += P::kBlockBytes, q += kBlock) {
    const float* x_scale = x.scale + row * blocks + b;
    if constexpr (kRows == 1) {
      for (int line = 0; line < P::kBlockBytes; line += 64) __builtin_prefetch(block + kAheadBytes + line);
    }
    RowInts<kRows> ints;
    each<kRows>([&](auto r, auto v) QUIRE_LAMBDA { ints[r][v] = LaneInts{}; });
    add_half<F, kRows>(block, q, x.cols, ints);
    if constexpr (F::kHalfScales) {
      add_scaled<F, kRows>(ints, block + P::kCodeBytes, x_scale, blocks, sums);
      each<kRows>([&](auto r, auto v) QUIRE_LAMBDA { ints[r][v] = LaneInts{}; });
    }
    add_half<F, kRows>(block + P::kCodeBytes / 2, q + 16, x.cols, ints);
    add_scaled<F, kRows>(ints, block + P::kMinimaAt - P::kScaleRowBytes, x_scale, blocks, sums);
    if constexpr (F::kMinima && F::kHalfScales) {
      for (int half = 0; half < 2; ++half) {
        add_minima<F, kRows>(block + P::kMinimaAt + half * P::kScaleRowBytes,
                             x.half_sums + (row * blocks + b) * 2 + half, 2 * blocks, sums);
      }
    } else if constexpr (F::kMinima) {
      add_minima<F, kRows>(block + P::kMinimaAt, x.sums + row * blocks + b, blocks, sums);
    }
  }
  each<kRows>([&](auto r, auto v) QUIRE_LAMBDA {
    std::memcpy(out + r * kPanelRows + kLaneBytes / 4 * v, &sums[r][v], sizeof sums[r][v]);
  });
}

// As many rows at a time as have registers for their sums.
constexpr int kMostRows = kLaneVectors == 1 ? 8 : 4;

// x by value: its fields stay in registers, which they would not if a store could change them.
void dot_panel(DType type, const std::byte* panel, QuantizedRows x, std::int64_t row, std::int64_t rows, float* out) {
  with_format(type, [=]<class F>(F) {
    std::int64_t done = 0;
    const auto dot = [&](auto count) QUIRE_LAMBDA {
      dot_rows<F, count>(panel, x, row + done, out + done * kPanelRows);
      done += count;
    };
    while (rows - done >= kMostRows) dot(std::integral_constant<int, kMostRows>{});
    if (kMostRows > 4 && rows - done >= 4) dot(std::integral_constant<int, 4>{});
    if (rows - done == 3) return dot(std::integral_constant<int, 3>{});
    if (rows - done == 2) return dot(std::integral_constant<int, 2>{});
    if (rows - done == 1) dot(std::integral_constant<int, 1>{});
  });
}

}  // namespace
}  // namespace quire
