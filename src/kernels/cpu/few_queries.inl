// Pages that few queries read: keys and values are multiplied as soon as they are converted, without a way
// through memory. Every sum has the same terms in the same order as where many queries read a page, so the bits are the
// same.
#include "kernels/cpu/value_pairs.inl"

namespace quire {
namespace {

#if defined(__AVX512BF16__)

// Scores of a page, as ScoreBytes makes them of keys in memory.
template <KvFormat kFormat, int kQueries>
struct ScoreAsMade {
  static void call(const TileLayout& l, const std::byte* tile, const std::byte* next,
                   const std::uint32_t* const* queries, std::int64_t scales_at, float* const* scores) {
    using Keys = KeysAsBytes<kFormat>;
    __m512 score[kQueries][2];
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA { score[i][0] = score[i][1] = _mm512_setzero_ps(); });
    fetch_scales(l, next);
    Keys keys(l, tile);
    for (std::int64_t begin = 0; begin < l.dim; begin += kByteDims, scales_at += 2) {
      const std::int64_t end = begin + kByteDims < l.dim ? begin + kByteDims : l.dim;
      keys.go_to(begin, end);
      __m512i total[kQueries][2];
      unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
        total[i][0] = total[i][1] = _mm512_set1_epi32(static_cast<std::int32_t>(queries[i][scales_at + 1]));
      });
      for (std::int64_t d = begin; d < end; d += kByteLines) {
        fetch_once_with_step<Keys::kTileLinesEach>(next, d / kByteLines);
        const FourLines four = keys.four(d);
        unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
          const __m512i query = _mm512_set1_epi32(static_cast<std::int32_t>(queries[i][d / 4]));
          total[i][0] = _mm512_dpbusd_epi32(total[i][0], four.left, query);
          total[i][1] = _mm512_dpbusd_epi32(total[i][1], four.right, query);
        });
      }
      unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
        unrolled<2>([&](auto half) QUIRE_LAMBDA {
          add_scaled_score(total[i][half], keys.scale[half], queries[i] + scales_at, score[i][half]);
        });
      });
    }
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
      _mm512_storeu_ps(scores[i], score[i][0]);
      _mm512_storeu_ps(scores[i] + 16, score[i][1]);
    });
  }
};

// Tiles of values of a span that are alike, and what is fetched meanwhile.
struct ValueTiles {
  const std::byte* tiles[kSpanPages];
  const std::byte* next[kSpanPages];
  std::int64_t first_page, end_page;
};

// 32 dimensions of bytes, from dimension d on, as AddBytes adds them from memory.
template <KvFormat kFormat, int kQueries>
struct AddBytesAsMade {
  static void call(const ValueTiles& pages, std::int64_t dim, std::int64_t d, const WeightBytes* weights,
                   const float* units, float* const* sums) {
    constexpr std::int64_t kLineBytes = kFormat == KvFormat::q8 ? kLine : kLine / 2;
    constexpr int kLinesEach = kByteLines * kLineBytes / kCacheLine;
    const std::int64_t stride = dim / kLine * kLineBytes, chunk = d / kLine;
    ByteSums<kQueries> total;
    for (std::int64_t p = pages.first_page; p < pages.end_page; ++p) {
      const std::byte* tile = pages.tiles[p] + chunk * kLineBytes;
      const std::byte* next = pages.next[p] + chunk * kLine * kLineBytes;
      for (std::int64_t t = 0; t < kLine; t += kByteLines) {
        fetch_once_with_step<kLinesEach>(next, t / kByteLines);
        total.add(four_lines<kFormat>(tile + t * stride, stride), weights, (p * kLine + t) / kByteLines);
      }
    }
    total.store(units, sums);
  }
};

// Values of a page's tokens [first, last), kLines lines of 32 dimensions of each. Returns false, and has added nothing,
// where some are not finite.
template <int kQueries, int kLines, bool kWhole>
QUIRE_INLINE bool add_values_of_f16(const std::byte* tile, std::int64_t dim, std::int64_t first, std::int64_t last,
                                    const std::byte* next, const std::uint32_t* const* weights, float* const* sums) {
  __m512 total[kQueries][2 * kLines];
  unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
    unrolled<2 * kLines>([&](auto v) QUIRE_LAMBDA { total[i][v] = _mm512_loadu_ps(sums[i] + 16 * v); });
  });
  PairMaker<false> maker;
  for (std::int64_t t = kWhole ? 0 : first / 2 * 2; t < (kWhole ? kLine : last); t += 2) {
    fetch_once_with_step<2 * kLines>(next, t / 2);
    const std::byte* at = tile + 2 * t * dim;
    MadePairs lines[kLines];
    unrolled<kLines>([&](auto n) QUIRE_LAMBDA {
      const std::byte* line = at + 2 * kLine * n;
      lines[n] = kWhole ? maker.make(_mm512_loadu_si512(line), _mm512_loadu_si512(line + 2 * dim))
                        : maker.make(seen_line(line, t, first, last), seen_line(line + 2 * dim, t + 1, first, last));
    });
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
      const __m512i weight = _mm512_set1_epi32(static_cast<int>(weights[i][t / 2]));
      unrolled<kLines>([&](auto n) QUIRE_LAMBDA {
        total[i][2 * n] = add_products(total[i][2 * n], weight, lines[n].left);
        total[i][2 * n + 1] = add_products(total[i][2 * n + 1], weight, lines[n].right);
      });
    });
  }
  if (!maker.all_finite()) return false;
  unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
    unrolled<2 * kLines>([&](auto v) QUIRE_LAMBDA { _mm512_storeu_ps(sums[i] + 16 * v, total[i][v]); });
  });
  return true;
}

// weights: of the page's first token; sums: of dimension 0. What could not be added begins at the dimension returned.
template <int kQueries>
struct AddValuesOfF16 {
  static std::int64_t call(const std::byte* tile, std::int64_t dim, std::int64_t first, std::int64_t last,
                           const std::byte* next, const std::uint32_t* const* weights, float* const* sums) {
    // So many sums fit the registers beside what lines are made with.
    constexpr int kLines = kQueries <= 3 ? 2 : 1;
    const bool whole = first <= 0 && last >= kLine;
    for (std::int64_t d = 0, step = 0; d < dim; d += step) {
      float* at[kQueries];
      unrolled<kQueries>([&](auto i) QUIRE_LAMBDA { at[i] = sums[i] + d; });
      const auto add = [&](auto lines) QUIRE_LAMBDA {
        step = lines * kLine;
        const std::byte* from = tile + 2 * d;
        const std::byte* fetched = next + kLine * d * 2;
        return whole ? add_values_of_f16<kQueries, lines, true>(from, dim, 0, kLine, fetched, weights, at)
                     : add_values_of_f16<kQueries, lines, false>(from, dim, first, last, fetched, weights, at);
      };
      const bool added = d + kLines * kLine <= dim ? add(std::integral_constant<int, kLines>{})
                                                   : add(std::integral_constant<int, 1>{});
      if (!added) return d;
    }
    return dim;
  }
};

// Kernels by queries less one.
template <template <int> class Kernel>
constexpr decltype(&Kernel<1>::call) kByFewQueries[] = {&Kernel<1>::call, &Kernel<2>::call, &Kernel<3>::call,
                                                        &Kernel<4>::call, &Kernel<5>::call, &Kernel<6>::call};
static_assert(std::size(kByFewQueries<AddValuesOfF16>) == kByteQueries);

template <KvFormat kFormat>
struct OfFormat {
  template <int kQueries>
  using Score = ScoreAsMade<kFormat, kQueries>;
  template <int kQueries>
  using AddBytes = AddBytesAsMade<kFormat, kQueries>;
};

#endif

}  // namespace
}  // namespace quire
