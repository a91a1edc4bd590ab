// Attention over f16 pages where the machine adds up short products. Scores are products of bytes (key_bytes.inl).
// Weights and values are multiplied in bf16, the 16 bits of two tokens side by side, and added up in floats. Whether a
// page is read so depends on its layout alone, so that one query or many give the same bits.
#include "kernels/cpu/key_bytes.inl"

namespace quire {
namespace {

#if defined(__AVX512BF16__)

QUIRE_INLINE bool read_in_pairs(const PageTileLayouts& layout) {
  return !layout.latent && layout.keys.format == KvFormat::f16 && layout.keys.order == KvOrder::lanes &&
         layout.keys.dim % 4 == 0 && layout.values.format == KvFormat::f16 && layout.values.dim % kLine == 0;
}
QUIRE_INLINE bool read_in_pairs(const Stretch& s) { return read_in_pairs(s.wide) && read_in_pairs(s.packed); }

// Lane i: a[i] and b[i], rounded.
QUIRE_INLINE __m512i pairs_of(__m512 a, __m512 b) {
  const __m512i half = _mm512_set1_epi32(0x8000);
  const __m512i low = _mm512_srli_epi32(_mm512_add_epi32(_mm512_castps_si512(a), half), 16);
  return _mm512_mask_blend_epi16(0xAAAAAAAAu, low, _mm512_add_epi32(_mm512_castps_si512(b), half));
}
QUIRE_INLINE __m512 add_products(__m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

// [16, dim]: of the page's tokens [first, last), zero beside them, whatever memory holds there.
void make_value_pairs(const std::byte* tile, std::int64_t dim, std::int64_t first, std::int64_t last,
                      const Ahead& ahead, std::uint32_t* pairs) {
  Lines lines = lines_at_hand(tile, 2 * dim);
  ahead.while_reading(lines, kLine);
  for (std::int64_t t = 0; t < kLine; t += 2, lines = lines.from(2), pairs += dim) {
    const bool has_first = t >= first && t < last, has_second = t + 1 >= first && t + 1 < last;
    for (std::int64_t d = 0; d < dim; d += 16) {
      fetch_ahead(lines.ahead + 4 * d);
      const std::byte* at = lines.codes + 2 * d;
      const __m512 zero = _mm512_setzero_ps();
      _mm512_store_si512(pairs + d, pairs_of(has_first ? floats_of_f16(at) : zero,
                                             has_second ? floats_of_f16(at + lines.stride) : zero));
    }
  }
}

// Two vectors of each line, times a pair of every query, added to its sums.
template <int kQueries>
QUIRE_INLINE void fold_pairs(const std::uint32_t* lines, std::int64_t stride, std::int64_t count,
                             const std::uint32_t* const* weights, __m512 (&total)[kQueries][2]) {
  for (std::int64_t n = 0; n < count; ++n, lines += stride) {
    const __m512i left = _mm512_load_si512(lines), right = _mm512_load_si512(lines + 16);
    unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
      const __m512i weight = _mm512_set1_epi32(static_cast<int>(weights[i][n]));
      total[i][0] = add_products(total[i][0], weight, left);
      total[i][1] = add_products(total[i][1], weight, right);
    });
  }
}
template <int kQueries>
void add_value_pairs(const std::uint32_t* values, std::int64_t stride, std::int64_t count,
                     const std::uint32_t* const* weights, float* const* sums) {
  __m512 total[kQueries][2];
  unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
    total[i][0] = _mm512_loadu_ps(sums[i]);
    total[i][1] = _mm512_loadu_ps(sums[i] + 16);
  });
  fold_pairs<kQueries>(values, stride, count, weights, total);
  unrolled<kQueries>([&](auto i) QUIRE_LAMBDA {
    _mm512_storeu_ps(sums[i], total[i][0]);
    _mm512_storeu_ps(sums[i] + 16, total[i][1]);
  });
}

using AddPairs = decltype(&add_value_pairs<1>);
constexpr AddPairs kAddPairs[kByteQueries] = {add_value_pairs<1>, add_value_pairs<2>, add_value_pairs<3>,
                                              add_value_pairs<4>, add_value_pairs<5>, add_value_pairs<6>};

// Queries of two passes.
struct QueryGroup {
  std::int32_t query[kByteQueries];
  std::int32_t from[kByteQueries], to[kByteQueries];  // tokens of the span that each sees
  std::int64_t first = kSpanTokens, last = 0;         // what any of them sees
  int count = 0;
};
template <class Body>
QUIRE_INLINE void for_groups(const Passes& passes, Body&& body) {
  for (const Pass* pass = passes.begin(); pass != passes.end();) {
    QueryGroup group;
    for (; pass != passes.end() && group.count + pass->count <= kByteQueries; ++pass) {
      for (int i = 0; i < pass->count; ++i) {
        group.query[group.count] = pass->query[i];
        group.from[group.count] = pass->first[i];
        group.to[group.count++] = pass->last[i];
        group.first = pass->first[i] < group.first ? pass->first[i] : group.first;
        group.last = pass->last[i] > group.last ? pass->last[i] : group.last;
      }
    }
    QUIRE_ASSERT(group.count > 0, "a pass has queries");
    body(group);
  }
}

// exp(x ln 2) for x <= 0, off by less than one in ten thousand.
QUIRE_INLINE __m512 power_of_two(__m512 x) {
  x = _mm512_max_ps(x, _mm512_set1_ps(-126.f));
  const __m512 whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 rest = _mm512_sub_ps(x, whole);
  __m512 series = _mm512_set1_ps(0.0551716648f);
  series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(0.2426111251f));
  series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(0.6932609677f));
  series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(0.9999280572f));
  return _mm512_scalef_ps(series, whole);
}

constexpr int kSpanVectors = kSpanTokens / 16;
constexpr float kLog2OfE = 1.44269504f;

// Lanes of vector v whose token is in [first, last).
QUIRE_INLINE __mmask16 lanes_in_range(int v, std::int64_t first, std::int64_t last) {
  const auto lanes_below = [v](std::int64_t token) QUIRE_LAMBDA {
    const std::int64_t lanes = token - 16 * v;
    return lanes <= 0 ? 0u : lanes >= 16 ? 0xFFFFu : (1u << lanes) - 1u;
  };
  return static_cast<__mmask16>(lanes_below(last) & ~lanes_below(first));
}

// The largest of a query's scores of tokens [first, last).
QUIRE_INLINE float largest_score(const float* scores, std::int64_t first, std::int64_t last) {
  __m512 largest[2] = {_mm512_set1_ps(kMinusInfinity), _mm512_set1_ps(kMinusInfinity)};
  unrolled<kSpanVectors>([&](auto v) QUIRE_LAMBDA {
    const __m512 here = _mm512_loadu_ps(scores + 16 * v);
    largest[v % 2] = _mm512_mask_max_ps(largest[v % 2], lanes_in_range(v, first, last), largest[v % 2], here);
  });
  return _mm512_reduce_max_ps(_mm512_max_ps(largest[0], largest[1]));
}
QUIRE_INLINE float largest_score_of_all(const float* scores) {
  __m512 largest[kSpanVectors];
  unrolled<kSpanVectors>([&](auto v) QUIRE_LAMBDA { largest[v] = _mm512_loadu_ps(scores + 16 * v); });
  unrolled<3>([&](auto level) QUIRE_LAMBDA {
    constexpr int kHalf = kSpanVectors >> (level + 1);
    unrolled<kHalf>([&](auto v) QUIRE_LAMBDA { largest[v] = _mm512_max_ps(largest[v], largest[v + kHalf]); });
  });
  return _mm512_reduce_max_ps(largest[0]);
}

// exp(score - max) of the tokens that are seen, in pairs, zero beside them. Returns their sum in sixteen parts.
template <class Keep>
QUIRE_INLINE __m512 weigh_in_pairs(const float* scores, float max, std::uint32_t* weights, Keep&& keep) {
  const __m512 slope = _mm512_set1_ps(kLog2OfE), shift = _mm512_set1_ps(-max * kLog2OfE);
  __m512 total[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  unrolled<kSpanVectors / 2>([&](auto pair) QUIRE_LAMBDA {
    __m512 weight[2];
    unrolled<2>([&](auto i) QUIRE_LAMBDA {
      const __m512 power = _mm512_fmadd_ps(_mm512_loadu_ps(scores + 16 * (2 * pair + i)), slope, shift);
      weight[i] = keep(2 * pair + i, power_of_two(power));
      total[i] = _mm512_add_ps(total[i], weight[i]);
    });
    const __m512bh both = _mm512_cvtne2ps_pbh(weight[1], weight[0]);
    _mm512_storeu_si512(weights + 16 * pair, reinterpret_cast<__m512i>(both));
  });
  return _mm512_add_ps(total[0], total[1]);
}

// Queries that are at hand together: what they are multiplied with stays in the first-level cache meanwhile.
struct GroupAtHand {
  alignas(64) float scores[kByteQueries][kSpanTokens];
  alignas(64) std::uint32_t weights[kByteQueries][kSpanTokens / 2];
};

// Scores become weights, the queries' maxima and sums go on. In loops of their own, each with little to wait for: sums
// across lanes of one query are made while others are at hand.
QUIRE_INLINE void weigh_group(const Stretch& s, const SoftmaxStates& states, const QueryGroup& group,
                              GroupAtHand& at_hand) {
  const auto all = [&](int i) { return group.from[i] == 0 && group.to[i] == kSpanTokens; };
  float maxima[kByteQueries];
  for (int i = 0; i < group.count; ++i) {
    const float* scores = at_hand.scores[i];
    const float here = all(i) ? largest_score_of_all(scores) : largest_score(scores, group.from[i], group.to[i]);
    const float before = states.max[group.query[i]];
    maxima[i] = here > before ? here : before;
  }
  __m512 totals[kByteQueries];
  for (int i = 0; i < group.count; ++i) {
    const float* scores = at_hand.scores[i];
    totals[i] =
        all(i) ? weigh_in_pairs(scores, maxima[i], at_hand.weights[i], [](auto, __m512 x) QUIRE_LAMBDA { return x; })
               : weigh_in_pairs(scores, maxima[i], at_hand.weights[i], [&](auto v, __m512 x) QUIRE_LAMBDA {
                   return _mm512_maskz_mov_ps(lanes_in_range(v, group.from[i], group.to[i]), x);
                 });
  }
  for (int i = 0; i < group.count; ++i) {
    float& max = states.max[group.query[i]];
    float& sum = states.sum[group.query[i]];
    float correction = sum == 0 ? 0.f : 1.f;
    if (sum != 0 && max != maxima[i]) {
      correction = _mm512_cvtss_f32(power_of_two(_mm512_set1_ps((max - maxima[i]) * kLog2OfE)));
    }
    sum = sum * correction + _mm512_reduce_add_ps(totals[i]);
    max = maxima[i];
    correct(s, states, group.query[i], correction);
  }
}

// Four pages, the first of which is number `page`.
void attend_span_in_pairs(const Stretch& s, const SoftmaxStates& states, std::int64_t page, const Passes& passes,
                          const SpanScratch& scratch) {
  const auto [first, last] = seen_by(passes);
  if (first >= last) return;
  const auto page_after = [](std::int64_t token) { return (token + kLine - 1) / kLine; };
  ByteTile keys[kSpanPages];
  float* key_scratch = scratch.keys;
  for (std::int64_t p = first / kLine; p < page_after(last); ++p) {
    keys[p] = make_key_bytes(s.tiles[page + p].keys, s.wide.keys.dim, values_ahead(s, page + p), key_scratch);
    key_scratch += byte_tile_floats(s.wide.keys.dim);
  }
  QUIRE_ASSERT(key_scratch <= scratch.end, "room for keys");
  auto* values = reinterpret_cast<std::uint32_t*>(scratch.values);
  for (std::int64_t p = first / kLine; p < page_after(last); ++p) {
    make_value_pairs(s.tiles[page + p].values, s.value_stride, first - p * kLine, last - p * kLine,
                     keys_ahead(s, page + p + kSpanPages), values + p * kLine / 2 * s.value_stride);
  }
  GroupAtHand at_hand;
  for_groups(passes, [&](const QueryGroup& group) QUIRE_LAMBDA {
    const std::uint32_t* queries[kByteQueries] = {};
    for (int i = 0; i < group.count; ++i) queries[i] = scratch.query_bytes + group.query[i] * (s.query_stride / 2);
    for (std::int64_t p = group.first / kLine; p < page_after(group.last); ++p) {
      float* scores[kByteQueries] = {};
      for (int i = 0; i < group.count; ++i) scores[i] = at_hand.scores[i] + p * kLine;
      kScoreBytes[group.count - 1](keys[p], queries, s.query_stride / 4, scores);
      for (int i = 0; s.softcap > 0 && i < group.count; ++i) cap_scores(scores[i], s.softcap);
    }
    weigh_group(s, states, group, at_hand);
    const std::int64_t from = group.first / 2, to = (group.last + 1) / 2;
    for (std::int64_t d = 0; d < s.value_stride; d += kLine) {
      const std::uint32_t* weights[kByteQueries] = {};
      float* sums[kByteQueries] = {};
      for (int i = 0; i < group.count; ++i) {
        weights[i] = at_hand.weights[i] + from;
        sums[i] = states.out + group.query[i] * s.value_stride + d;
      }
      kAddPairs[group.count - 1](values + from * s.value_stride + d, s.value_stride, to - from, weights, sums);
    }
  });
}

void attend_in_pairs(const Stretch& s, const SoftmaxStates& states) {
  const SpanScratch scratch(s);
  for (std::int64_t i = 0; i < s.queries; ++i) {
    make_query_bytes(s.q + i * s.query_stride, s.query_stride, scratch.query_bytes + i * (s.query_stride / 2));
  }
  // Most spans of a long prompt are seen by all: their passes are the same.
  std::int64_t seen_from = 0, seen_to = INT64_MAX;
  for (std::int64_t i = 0; i < s.queries; ++i) {
    seen_from = s.first[i] > seen_from ? s.first[i] : seen_from;
    seen_to = s.last[i] < seen_to ? s.last[i] : seen_to;
  }
  Passes passes{};
  bool of_all = false;
  for (std::int64_t page = 0; page < s.pages; page += kSpanPages) {
    const std::int64_t begin = s.begin + page * kPageTokens;
    const bool all_see = seen_from <= begin && begin + kSpanTokens <= seen_to;
    if (!of_all || !all_see) passes = passes_over(s, begin, kSpanTokens, scratch.passes);
    of_all = all_see;
    attend_span_in_pairs(s, states, page, passes, scratch);
  }
}

#else

QUIRE_INLINE bool read_in_pairs(const Stretch&) { return false; }
QUIRE_INLINE void attend_in_pairs(const Stretch&, const SoftmaxStates&) {}

#endif

}  // namespace
}  // namespace quire
