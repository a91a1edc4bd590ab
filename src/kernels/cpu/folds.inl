// Sums over the lines of a tile: scores of its keys, and weighted sums of its values. A query's sums are added in
// the same order whichever queries are computed with it.
#include "kernels/cpu/lines.inl"

namespace quire {
namespace {

template <int kQueries>
using Sums = F8[kQueries][kLineVectors];

// total[i] += weights[i][n] * line, vector by vector: sums and weights of three queries leave one register of
// 16 free, so no more than one vector of the line may be at hand.
template <int kQueries, class Vector>
QUIRE_INLINE void fold_line(Sums<kQueries>& total, const float* const (&weights)[kQueries], std::int64_t n,
                            Vector vector) {
  F8 weight[kQueries];
  unrolled<kQueries>([&](auto i) QUIRE_LAMBDA { weight[i] = broadcast_at(weights[i] + n); });
  unrolled<kLineVectors>([&](auto v) QUIRE_LAMBDA {
    const F8 x = vector(v);
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA { total[i][v] = fma(weight[i], x, total[i][v]); });
  });
}

// total[i] += weights[i][n] * line n, for `count` of them.
template <class Line, int kQueries>
QUIRE_INLINE void fold_lines(const Lines& lines, std::int64_t count, const float* const (&weights)[kQueries],
                             Sums<kQueries>& total) {
  const std::byte* codes = lines.codes;
  const std::byte* ahead = lines.ahead;
  for (std::int64_t n = 0; n < count; ++n, codes += lines.stride, ahead += lines.ahead_stride) {
    fetch_ahead(ahead);
    fold_line(total, weights, n, [codes](int v) QUIRE_LAMBDA { return Line::vector(codes, v); });
  }
}

struct LineKernels;

// Keys of a page: a line per dimension. Scores are the sum over d of q[d] times line d, group by group where
// tokens have scales.
struct KeyTile {
  const LineKernels* kernels;
  Lines lines;
  std::int64_t dim;
  std::int64_t group_dims;
  const float* scale;          // [groups, 32], or null
  const float* channel_scale;  // [dim], or null; zero beyond, to a multiple of 8
  const float* channel_zero;
  bool even;  // levels are evenly spaced, and scored as whole numbers
};

template <class Line, int kQueries>
void score_lines(const KeyTile& k, const float* const* q, float* const* scores) {
  for (std::int64_t d = 0; d < k.dim; d += k.group_dims) {
    Sums<kQueries> total;
    const float* weights[kQueries];
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
      weights[i] = q[i] + d;
      unrolled<kLineVectors>([&](auto v) QUIRE_LAMBDA { total[i][v] = broadcast(0); });
    });
    fold_lines<Line>(k.lines.from(d), k.dim - d < k.group_dims ? k.dim - d : k.group_dims, weights, total);
    const float* scale = k.scale != nullptr ? k.scale + d / k.group_dims * kLine : nullptr;
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
      unrolled<kLineVectors>([&](auto v) QUIRE_LAMBDA {
        F8 x = total[i][v];
        if (scale != nullptr) x = x * load8(scale + 8 * v);
        if (d > 0) x = x + load8(scores[i] + 8 * v);
        store8(scores[i] + 8 * v, x);
      });
    });
  }
}

// sums[i] += weights[i][t] * the line of token t, for t in [first, last), over pages one after the other.
template <class Line, int kQueries>
void add_lines(const Lines* pages, std::int64_t first, std::int64_t last, const float* const* weights,
               float* const* sums) {
  Sums<kQueries> total;
  unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
    unrolled<kLineVectors>([&](auto v) QUIRE_LAMBDA { total[i][v] = load8(sums[i] + 8 * v); });
  });
  for (std::int64_t t = first; t < last;) {
    const std::int64_t page = t / kLine, end = (page + 1) * kLine < last ? (page + 1) * kLine : last;
    const float* weight[kQueries];
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA { weight[i] = weights[i] + t; });
    fold_lines<Line>(pages[page].from(t % kLine), end - t, weight, total);
    t = end;
  }
  unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
    unrolled<kLineVectors>([&](auto v) QUIRE_LAMBDA { store8(sums[i] + 8 * v, total[i][v]); });
  });
}

// How the lines of a format are read.
struct LineKernels {
  // As they are; null where they have to be made first.
  void (*score[kMaxTogether])(const KeyTile&, const float* const* q, float* const* scores);
  void (*add[kMaxTogether])(const Lines* pages, std::int64_t first, std::int64_t last, const float* const* weights,
                            float* const* sums);
  void (*make)(const Lines&, std::int64_t count, Made* out);
  void (*floats)(const Lines&, std::int64_t count, float* out);
  std::int64_t few_queries;  // up to so many it is cheaper not to make lines; measured
};

// bf16 and f32 would lose bits as f16, in which lines are made.
constexpr std::int64_t kAnyQueries = std::int64_t{1} << 32;
template <class Line>
constexpr LineKernels kLineKernels{{score_lines<Line, 1>, score_lines<Line, 2>, score_lines<Line, 3>},
                                   {add_lines<Line, 1>, add_lines<Line, 2>, add_lines<Line, 3>},
                                   nullptr,
                                   lines_to_floats<Line>,
                                   kAnyQueries};
template <class Line>
constexpr LineKernels kMadeAt(std::int64_t few_queries) {
  LineKernels kernels{{}, {}, make_lines<Line>, lines_to_floats<Line>, few_queries};
  if constexpr (kByVector<Line>) {
    for (int i = 0; i < kMaxTogether; ++i) {
      kernels.score[i] = kLineKernels<Line>.score[i];
      kernels.add[i] = kLineKernels<Line>.add[i];
    }
  }
  return kernels;
}
template <class Line, std::int64_t kFewQueries>
constexpr LineKernels kMadeKernels = kMadeAt<Line>(kFewQueries);

const LineKernels& line_kernels(KvFormat format) {
#if defined(__AVX2__)
  constexpr std::int64_t kF16Queries = kAnyQueries;  // read as quickly as floats
#else
  constexpr std::int64_t kF16Queries = 3;
#endif
  switch (format) {
    case KvFormat::f32:
      return kLineKernels<F32Line>;
    case KvFormat::f16:
      return kMadeKernels<F16Line, kF16Queries>;
    case KvFormat::bf16:
      return kLineKernels<Bf16Line>;
    case KvFormat::fp8:
      return kMadeKernels<Fp8Line, 0>;
    case KvFormat::q8:
      return kMadeKernels<Q8Line, 6>;
    case KvFormat::q5:
      return kMadeKernels<Q5Line, 0>;
    case KvFormat::q4:
      return kMadeKernels<NibbleLine<kLevels4>, 0>;
    case KvFormat::q2:
      return kMadeKernels<PairLine<kLevels2>, 0>;
    case KvFormat::k4:
      return kMadeKernels<NibbleLine<kCounting>, 0>;
    case KvFormat::k2:
      return kMadeKernels<PairLine<kCounting>, 0>;
  }
  __builtin_unreachable();
}

}  // namespace
}  // namespace quire
