// Products of activations with quantised weights, in integers within each block of 32 columns. Lanes are weight
// rows: every product is summed on its own, block after block, whatever is computed beside it.
#include "kernels/cpu/panels.inl"

namespace quire {
namespace {

template <int kRows>
using PanelInts = I8[kRows][2];
template <int kRows>
using PanelSums = F8[kRows][2];

// Adds the products of one pair of columns.
template <int kRows>
QUIRE_INLINE void add_pair(S16 first, S16 second, const std::int16_t* q, std::int64_t cols, PanelInts<kRows>& sums) {
  unrolled<kRows>([&](auto r) QUIRE_LAMBDA {
    const S16 x = pair_at(q + r * cols);
    add_pairs(first, x, sums[r][0]);
    add_pairs(second, x, sums[r][1]);
  });
}

// Half a block: 16 columns. q: their activations in the first row.
template <class F, int kRows>
QUIRE_INLINE void add_half(const std::uint8_t* codes, const std::int16_t* q, std::int64_t cols,
                           PanelInts<kRows>& sums) {
  if constexpr (Panel<F>::kNibbles) {
    unrolled<2>([&](auto j) QUIRE_LAMBDA {
      const auto first = load_bytes<S16>(codes + 64 * j), second = load_bytes<S16>(codes + 64 * j + 32);
      unrolled<4>([&](auto i) QUIRE_LAMBDA {
        add_pair<kRows>(nibble<F, i>(first), nibble<F, i>(second), q + 8 * j + 2 * i, cols, sums);
      });
    });
  } else {
    unrolled<8>([&](auto pair) QUIRE_LAMBDA {
      const auto first = load_bytes<B16>(codes + 32 * pair), second = load_bytes<B16>(codes + 32 * pair + 16);
      add_pair<kRows>(widen_signed(first), widen_signed(second), q + 2 * pair, cols, sums);
    });
  }
}

// At most 32 products of 128 and 32767 in a lane: an int32 holds them.
template <class F, int kRows>
QUIRE_INLINE void add_scaled(const PanelInts<kRows>& ints, const std::uint8_t* scales, const float* x_scale,
                             std::int64_t blocks, PanelSums<kRows>& sums) {
  const F8 first = load_scales<F>(scales), second = load_scales<F>(scales + Panel<F>::kScaleRowBytes / 2);
  unrolled<kRows>([&](auto r) QUIRE_LAMBDA {
    const F8 x = broadcast_at(x_scale + r * blocks);
    sums[r][0] = fma(to_floats(ints[r][0]), first * x, sums[r][0]);
    sums[r][1] = fma(to_floats(ints[r][1]), second * x, sums[r][1]);
  });
}

template <class F, int kRows>
QUIRE_INLINE void add_minima(const std::uint8_t* minima, const float* x_sums, std::int64_t stride,
                             PanelSums<kRows>& sums) {
  const F8 first = load_scales<F>(minima), second = load_scales<F>(minima + Panel<F>::kScaleRowBytes / 2);
  unrolled<kRows>([&](auto r) QUIRE_LAMBDA {
    const F8 x = broadcast_at(x_sums + r * stride);
    sums[r][0] = fma(first, x, sums[r][0]);
    sums[r][1] = fma(second, x, sums[r][1]);
  });
}

template <class F, int kRows>
QUIRE_INLINE void dot_rows(const std::byte* panel, const QuantizedRows& x, std::int64_t row, float* out) {
  using P = Panel<F>;
  const std::int64_t blocks = x.cols / kBlock;
  const auto* block = reinterpret_cast<const std::uint8_t*>(panel);
  const std::int16_t* q = x.q + row * x.cols;
  PanelSums<kRows> sums;
  unrolled<kRows>([&](auto r) QUIRE_LAMBDA { sums[r][0] = sums[r][1] = F8{}; });
  for (std::int64_t b = 0; b < blocks; ++b, block += P::kBlockBytes, q += kBlock) {
    const float* x_scale = x.scale + row * blocks + b;
    PanelInts<kRows> ints;
    unrolled<kRows>([&](auto r) QUIRE_LAMBDA { ints[r][0] = ints[r][1] = I8{}; });
    add_half<F, kRows>(block, q, x.cols, ints);
    if constexpr (F::kHalfScales) {
      add_scaled<F, kRows>(ints, block + P::kCodeBytes, x_scale, blocks, sums);
      unrolled<kRows>([&](auto r) QUIRE_LAMBDA { ints[r][0] = ints[r][1] = I8{}; });
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
  unrolled<kRows>([&](auto r) QUIRE_LAMBDA {
    store8(out + r * kPanelRows, sums[r][0]);
    store8(out + r * kPanelRows + 8, sums[r][1]);
  });
}

// x by value: its fields stay in registers, which they would not if a store could change them.
void dot_panel(DType type, const std::byte* panel, QuantizedRows x, std::int64_t row, std::int64_t rows, float* out) {
  with_format(type, [=]<class F>(F) {
    static_assert(kTileRows == 4);
    if (rows == 4) return dot_rows<F, 4>(panel, x, row, out);
    if (rows == 3) return dot_rows<F, 3>(panel, x, row, out);
    if (rows == 2) return dot_rows<F, 2>(panel, x, row, out);
    dot_rows<F, 1>(panel, x, row, out);
  });
}

}  // namespace
}  // namespace quire
