// Scores of a span become weights, a few queries at a time.
#include "kernels/cpu/few_queries.inl"

namespace quire {
namespace {

#if defined(__AVX512BF16__)

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

QUIRE_INLINE int count_queries(const Passes& passes) {
  int count = 0;
  for (const Pass& pass : passes) count += pass.count;
  return count;
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

QUIRE_INLINE float weight_of(float score) { return _mm512_cvtss_f32(power_of_two(_mm512_set1_ps(score * kLog2OfE))); }

// The largest of a query's scores of tokens [first, last).
QUIRE_INLINE float largest_score(const float* scores, std::int64_t first, std::int64_t last) {
  __m512 largest = _mm512_set1_ps(kMinusInfinity);
  for (std::int64_t v = first / 16; 16 * v < last; ++v) {
    const __m512 here = _mm512_loadu_ps(scores + 16 * v);
    largest = _mm512_mask_max_ps(largest, lanes_in_range(v, first, last), largest, here);
  }
  return _mm512_reduce_max_ps(largest);
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

// What is made of weights: pairs for values of f16; floats, in place of scores, for values that are bytes.
enum class Weights { pairs, floats, both };

// Exponentials of a query's scores under a maximum, a page at a time.
template <Weights kWeights>
struct Weighing {
  QUIRE_INLINE Weighing(float* scores_, float max, std::uint32_t* weights_)
      : scores(scores_), weights(weights_), shift(_mm512_set1_ps(-max * kLog2OfE)) {}

  // keep: what is left of the weights of vector v
  template <class Keep>
  QUIRE_INLINE void weigh_page(std::int64_t page, Keep&& keep) {
    __m512 weight[2];
    unrolled<2>([&](auto i) QUIRE_LAMBDA {
      float* at = scores + kLine * page + 16 * i;
      const __m512 power = _mm512_fmadd_ps(_mm512_loadu_ps(at), _mm512_set1_ps(kLog2OfE), shift);
      weight[i] = keep(2 * page + i, power_of_two(power));
      if constexpr (kWeights != Weights::pairs) _mm512_store_ps(at, weight[i]);
      total[i] = _mm512_add_ps(total[i], weight[i]);
    });
    if constexpr (kWeights != Weights::floats) {
      const __m512 pair_weight = _mm512_set1_ps(kPairWeight);
      const __m512bh both =
          _mm512_cvtne2ps_pbh(_mm512_mul_ps(weight[1], pair_weight), _mm512_mul_ps(weight[0], pair_weight));
      _mm512_storeu_si512(weights + kLine / 2 * page, reinterpret_cast<__m512i>(both));
    }
  }
  QUIRE_INLINE void weigh_all() {
    unrolled<kSpanPages>([&](auto page)
                             QUIRE_LAMBDA { weigh_page(page, [](auto, __m512 x) QUIRE_LAMBDA { return x; }); });
  }
  // Of pages that a group reads, zero beside the tokens that the query sees.
  QUIRE_INLINE void weigh_seen(const QueryGroup& group, int query) {
    for (std::int64_t page = group.first / kLine; page * kLine < group.last; ++page) {
      weigh_page(page, [&](std::int64_t v, __m512 x) QUIRE_LAMBDA {
        return _mm512_maskz_mov_ps(lanes_in_range(v, group.from[query], group.to[query]), x);
      });
    }
  }

  float* scores;
  std::uint32_t* weights;
  __m512 shift;
  __m512 total[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
};

// Queries that are at hand together: what they are multiplied with stays in the first-level cache meanwhile.
struct GroupAtHand {
  alignas(64) float scores[kByteQueries][kSpanTokens];  // then weights
  alignas(64) std::uint32_t weights[kByteQueries][kSpanTokens / 2];
  WeightBytes bytes[kByteQueries];
  float largest[kByteQueries];  // weight in this span, where it is asked for
};

// Scores become weights, the queries' maxima and sums go on. In loops of their own, each with little to wait for: sums
// across lanes of one query are made while others are at hand.
template <Weights kWeights>
QUIRE_INLINE void weigh_group(const Stretch& s, const SoftmaxStates& states, const QueryGroup& group,
                              GroupAtHand& at_hand) {
  const auto all = [&](int i) { return group.from[i] == 0 && group.to[i] == kSpanTokens; };
  float maxima[kByteQueries];
  for (int i = 0; i < group.count; ++i) {
    const float* scores = at_hand.scores[i];
    const float here = all(i) ? largest_score_of_all(scores) : largest_score(scores, group.from[i], group.to[i]);
    const float before = states.max[group.query[i]];
    maxima[i] = here > before ? here : before;
    if constexpr (kWeights != Weights::pairs) at_hand.largest[i] = weight_of(here - maxima[i]);
  }
  __m512 totals[kByteQueries];
  for (int i = 0; i < group.count; ++i) {
    Weighing<kWeights> weighing(at_hand.scores[i], maxima[i], at_hand.weights[i]);
    if (all(i)) {
      weighing.weigh_all();
    } else {
      weighing.weigh_seen(group, i);
    }
    totals[i] = _mm512_add_ps(weighing.total[0], weighing.total[1]);
  }
  for (int i = 0; i < group.count; ++i) {
    float& max = states.max[group.query[i]];
    float& sum = states.sum[group.query[i]];
    float correction = sum == 0 ? 0.f : 1.f;
    if (sum != 0 && max != maxima[i]) correction = weight_of(max - maxima[i]);
    sum = sum * correction + _mm512_reduce_add_ps(totals[i]);
    max = maxima[i];
    correct(s, states, group.query[i], correction);
  }
}

#endif

}  // namespace
}  // namespace quire
