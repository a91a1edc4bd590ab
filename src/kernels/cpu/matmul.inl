// Products of activations with quantised weights, in integers within each block of 32 columns. Lanes are weight
// rows: every product is summed on its own, block after block, whatever is computed beside it. Activations have 16
// bits, and pairs of columns are multiplied at once; or 8 (matmul_bytes.inl), and four are.
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

QUIRE_INLINE void load_words(const std::uint8_t* from, LaneWords (&words)[kLaneVectors]) {
  unrolled<kLaneVectors>([&](auto v) QUIRE_LAMBDA { words[v] = load_bytes<LaneWords>(from + kLaneBytes * v); });
}

// Activations of 16 bits.
struct WordRows {
  const QuantizedRows* x;
  const std::int16_t* q;  // of the first row, in the block at hand

  QUIRE_INLINE WordRows(const QuantizedRows& rows, std::int64_t row) : x(&rows), q(rows.q + row * rows.cols) {}
  QUIRE_INLINE void next_block() { q += kBlock; }

  template <class F, int kRows>
  QUIRE_INLINE void clear(std::int64_t, RowInts<kRows>& sums) const {
    each<kRows>([&](auto r, auto v) QUIRE_LAMBDA { sums[r][v] = LaneInts{}; });
  }

  // Half a block: 16 columns.
  template <class F, int kRows>
  QUIRE_INLINE void add_half(int half, const std::uint8_t* codes, RowInts<kRows>& sums) const {
    const std::int16_t* at = q + 16 * half;
    const auto add_pair = [&](const LaneWords(&weights)[kLaneVectors], std::int64_t column) QUIRE_LAMBDA {
      unrolled<kRows>([&](auto r) QUIRE_LAMBDA {
        const LaneWords pair = spread_pair(at + column + r * x->cols);
        unrolled<kLaneVectors>([&](auto v) QUIRE_LAMBDA { add_products(weights[v], pair, sums[r][v]); });
      });
    };
    LaneWords words[kLaneVectors], weights[kLaneVectors];
    if constexpr (Panel<F>::kNibbles) {
      unrolled<2>([&](auto j) QUIRE_LAMBDA {
        load_words(codes + 64 * j, words);
        unrolled<4>([&](auto i) QUIRE_LAMBDA {
          unrolled<kLaneVectors>([&](auto v) QUIRE_LAMBDA { weights[v] = nibble<F, i>(words[v]); });
          add_pair(weights, 8 * j + 2 * kPairOfNibble[i]);
        });
      });
    } else {
      unrolled<4>([&](auto j) QUIRE_LAMBDA {
        load_words(codes + 64 * j, words);
        unrolled<2>([&](auto i) QUIRE_LAMBDA {
          unrolled<kLaneVectors>([&](auto v) QUIRE_LAMBDA { weights[v] = byte_of<i>(words[v]); });
          add_pair(weights, 4 * j + 2 * i);
        });
      });
    }
  }
};

}  // namespace
}  // namespace quire

#if defined(__AVX512VNNI__)
#include "kernels/cpu/matmul_bytes.inl"
#endif

namespace quire {
namespace {

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

template <class F, int kRows, class Activations>
QUIRE_INLINE void dot_rows(const std::byte* panel, const QuantizedRows& x, std::int64_t row, float* out) {
  using P = Panel<F>;
  const std::int64_t blocks = x.cols / kBlock;
  const auto* block = reinterpret_cast<const std::uint8_t*>(panel);
  Activations rows(x, row);
  RowSums<kRows> sums;
  each<kRows>([&](auto r, auto v) QUIRE_LAMBDA { sums[r][v] = LaneFloats{}; });
  for (std::int64_t b = 0; b < blocks; ++b, block += P::kBlockBytes, rows.next_block()) {
    const float* x_scale = x.scale + row * blocks + b;
    if constexpr (kRows == 1) {
      for (int line = 0; line < P::kBlockBytes; line += 64) __builtin_prefetch(block + kAheadBytes + line);
    }
    RowInts<kRows> ints;
    rows.template clear<F, kRows>(2 * b, ints);
    rows.template add_half<F, kRows>(0, block, ints);
    if constexpr (F::kHalfScales) {
      add_scaled<F, kRows>(ints, block + P::kCodeBytes, x_scale, blocks, sums);
      rows.template clear<F, kRows>(2 * b + 1, ints);
    }
    rows.template add_half<F, kRows>(1, block + P::kCodeBytes / 2, ints);
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
template <class Activations>
QUIRE_INLINE void dot_panel_with(DType type, const std::byte* panel, QuantizedRows x, std::int64_t row,
                                 std::int64_t rows, float* out) {
  with_format(type, [=]<class F>(F) {
    std::int64_t done = 0;
    const auto dot = [&](auto count) QUIRE_LAMBDA {
      dot_rows<F, count, Activations>(panel, x, row + done, out + done * kPanelRows);
      done += count;
    };
    while (rows - done >= kMostRows) dot(std::integral_constant<int, kMostRows>{});
    if (kMostRows > 4 && rows - done >= 4) dot(std::integral_constant<int, 4>{});
    if (rows - done == 3) return dot(std::integral_constant<int, 3>{});
    if (rows - done == 2) return dot(std::integral_constant<int, 2>{});
    if (rows - done == 1) dot(std::integral_constant<int, 1>{});
  });
}

void dot_panel(DType type, const std::byte* panel, QuantizedRows x, std::int64_t row, std::int64_t rows, float* out) {
  dot_panel_with<WordRows>(type, panel, x, row, rows, out);
}

#if defined(__AVX512VNNI__)
void dot_panel_bytes(DType type, const std::byte* panel, QuantizedRows x, std::int64_t row, std::int64_t rows,
                     float* out) {
  dot_panel_with<ByteRows>(type, panel, x, row, rows, out);
}
#endif

}  // namespace
}  // namespace quire
