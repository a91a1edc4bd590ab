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
  const std::int16_t* q;  // of the first row, in the block at hand

  QUIRE_INLINE WordRows(const QuantizedRows& x, std::int64_t place) : q(x.q + place * kBlock) {}
  QUIRE_INLINE void next_block() { q += kTileRows * kBlock; }

  template <class F, int kRows>
  QUIRE_INLINE void clear(int, RowInts<kRows>& sums) const {
    each<kRows>([&](auto r, auto v) QUIRE_LAMBDA { sums[r][v] = LaneInts{}; });
  }

  // Half a block: 16 columns.
  template <class F, int kRows>
  QUIRE_INLINE void add_half(int half, const std::uint8_t* codes, RowInts<kRows>& sums) const {
    const std::int16_t* at = q + 16 * half;
    const auto add_pair = [&](const LaneWords(&weights)[kLaneVectors], std::int64_t column) QUIRE_LAMBDA {
      unrolled<kRows>([&](auto r) QUIRE_LAMBDA {
        const LaneWords pair = spread_pair(at + column + r * kBlock);
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
                             RowSums<kRows>& sums) {
  LaneFloats scale[kLaneVectors];
  load_factors<F>(scales, scale);
  each<kRows>([&](auto r, auto v) QUIRE_LAMBDA {
    sums[r][v] = multiply_add(as_floats(ints[r][v]), scale[v] * spread(x_scale + r), sums[r][v]);
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

// Where the products of a panel with some rows go.
struct PanelOutput {
  float* out;
  std::int64_t stride;
  const float* bias;     // or null
  std::int64_t outputs;  // lanes that are any
  bool add;              // to what is there

  // The same of the panel so many panels on.
  QUIRE_INLINE PanelOutput panel(std::int64_t number) const {
    const std::int64_t lanes = number * kPanelRows;
    return {out + lanes, stride, bias != nullptr ? bias + lanes : nullptr, outputs - lanes, add};
  }
};

QUIRE_INLINE LaneFloats load_lanes(const float* from) {
  LaneFloats v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

QUIRE_INLINE void store_product(LaneFloats sum, float* out, const float* bias, bool add) {
  if (bias != nullptr) sum = sum + load_lanes(bias);
  if (add) sum = load_lanes(out) + sum;
  std::memcpy(out, &sum, sizeof sum);
}

template <int kRows>
QUIRE_INLINE void store_products(const RowSums<kRows>& sums, const PanelOutput& to) {
  each<kRows>([&](auto r, auto v) QUIRE_LAMBDA {
    constexpr int kLanes = kLaneBytes / 4;
    const std::int64_t begin = kLanes * v, left = to.outputs - begin;
    float* out = to.out + r * to.stride + begin;
    if (left >= kLanes) {
      store_product(sums[r][v], out, to.bias != nullptr ? to.bias + begin : nullptr, to.add);
    } else if (left > 0) {
      LaneFloats all{}, biases{};
      const auto bytes = static_cast<std::size_t>(left) * sizeof(float);
      if (to.bias != nullptr) std::memcpy(&biases, to.bias + begin, bytes);
      if (to.add) std::memcpy(&all, out, bytes);
      store_product(sums[r][v], reinterpret_cast<float*>(&all), reinterpret_cast<float*>(&biases), to.add);
      std::memcpy(out, &all, bytes);
    }
  });
}

// A single row takes less time than its weights take to come.
constexpr std::int64_t kAheadBytes = 8192;

template <class F, int kRows, class Activations>
QUIRE_INLINE void dot_rows(const std::byte* panel, const QuantizedRows& x, std::int64_t row, const PanelOutput& to) {
  using P = Panel<F>;
  const std::int64_t blocks = x.cols / kBlock;
  std::int64_t place = place_of_row(row, x.cols);
  const auto* block = reinterpret_cast<const std::uint8_t*>(panel);
  Activations rows(x, place);
  RowSums<kRows> sums;
  each<kRows>([&](auto r, auto v) QUIRE_LAMBDA { sums[r][v] = LaneFloats{}; });
  for (std::int64_t b = 0; b < blocks; ++b, block += P::kBlockBytes, place += kTileRows, rows.next_block()) {
    const float* x_scale = x.scale + place;
    if constexpr (kRows == 1) {
      for (int line = 0; line < P::kBlockBytes; line += 64) __builtin_prefetch(block + kAheadBytes + line);
    }
    RowInts<kRows> ints;
    rows.template clear<F, kRows>(0, ints);
    rows.template add_half<F, kRows>(0, block, ints);
    if constexpr (F::kHalfScales) {
      add_scaled<F, kRows>(ints, block + P::kCodeBytes, x_scale, sums);
      rows.template clear<F, kRows>(1, ints);
    }
    rows.template add_half<F, kRows>(1, block + P::kCodeBytes / 2, ints);
    add_scaled<F, kRows>(ints, block + P::kMinimaAt - P::kScaleRowBytes, x_scale, sums);
    if constexpr (F::kMinima && F::kHalfScales) {
      for (int half = 0; half < 2; ++half) {
        add_minima<F, kRows>(block + P::kMinimaAt + half * P::kScaleRowBytes, x.half_sums + 2 * place + half, 2, sums);
      }
    } else if constexpr (F::kMinima) {
      add_minima<F, kRows>(block + P::kMinimaAt, x.sums + place, 1, sums);
    }
  }
  store_products<kRows>(sums, to);
}

// As many rows at a time as have registers for their sums.
constexpr int kMostRows = kLaneVectors == 1 ? 8 : 4;

// body(rows, panels at a time, first row, panel, where its products with them go), of all rows and panels. A single row
// takes a panel at a time: its weights come from memory, in the order in which they lie there.
template <int kRowsAtOnce, int kPanelsAtOnce, class Body>
QUIRE_INLINE void each_tile(const PanelProducts& p, std::int64_t panel_bytes, std::int64_t rows, Body&& body) {
  const auto all_panels = [&](auto count, std::int64_t row) QUIRE_LAMBDA {
    constexpr std::int64_t kOutputs = (count > 1 ? kPanelsAtOnce : 1) * kPanelRows;
    const PanelOutput first{p.out + row * p.stride, p.stride, p.bias, p.outputs, p.add};
    const auto some_panels = [&](auto panels, std::int64_t n) QUIRE_LAMBDA {
      body(count, panels, row, p.panels + n / kPanelRows * panel_bytes, first.panel(n / kPanelRows));
    };
    std::int64_t n = 0;
    for (; p.outputs - n > kOutputs - kPanelRows; n += kOutputs) {
      some_panels(std::integral_constant<int, kOutputs / kPanelRows>{}, n);
    }
    for (; n < p.outputs; n += kPanelRows) some_panels(std::integral_constant<int, 1>{}, n);
  };
  std::int64_t row = 0;
  for (; rows - row >= kRowsAtOnce; row += kRowsAtOnce) all_panels(std::integral_constant<int, kRowsAtOnce>{}, row);
  if (kRowsAtOnce > 4 && rows - row >= 4) {
    all_panels(std::integral_constant<int, 4>{}, row);
    row += 4;
  }
  if (rows - row == 3) return all_panels(std::integral_constant<int, 3>{}, row);
  if (rows - row == 2) return all_panels(std::integral_constant<int, 2>{}, row);
  if (rows - row == 1) all_panels(std::integral_constant<int, 1>{}, row);
}

// x by value: its fields stay in registers, which they would not if a store could change them.
template <class Activations>
QUIRE_INLINE void multiply_panels_with(DType type, PanelProducts p, QuantizedRows x, std::int64_t rows) {
  with_format(type, [=]<class F>(F) {
    each_tile<kMostRows, 1>(p, x.cols / kBlock * Panel<F>::kBlockBytes, rows,
                            [&](auto count, auto, std::int64_t row, const std::byte* panel, const PanelOutput& to)
                                QUIRE_LAMBDA { dot_rows<F, count, Activations>(panel, x, row, to); });
  });
}

void multiply_panels(DType type, PanelProducts products, QuantizedRows x, std::int64_t rows) {
  multiply_panels_with<WordRows>(type, products, x, rows);
}

#if defined(__AVX512VNNI__)
void multiply_panels_bytes(DType type, PanelProducts products, QuantizedRows x, std::int64_t rows) {
  multiply_panels_with<ByteRows>(type, products, x, rows);
}
#endif

}  // namespace
}  // namespace quire
