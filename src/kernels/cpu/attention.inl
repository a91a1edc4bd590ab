// Attention over a stretch of pages, with an online softmax: four pages at a time, scores of all queries, then their
// weights, then weighted sums of values. One lane is one token while scores are computed: no horizontal
// sums, and the softmax works on whole vectors.
#include "kernels/cpu/short_products.inl"

namespace quire {
namespace {

// Keys of a page made ready, and values too where they come from the same tile.
QUIRE_INLINE KeyTile keys_at(const Stretch& s, std::int64_t page, float*& key_scratch, float*& value_scratch,
                             ValueTile* v) {
  if (!s.wide.latent) return ready_keys(s, s.tiles[page], values_ahead(s, page), key_scratch);
  KeyTile k;
  latent_tiles(s, s.tiles[page], key_scratch, value_scratch, k, *v);
  return k;
}

// Four pages, the first of which is number `page`.
QUIRE_INLINE void attend_span(const Stretch& s, const SoftmaxStates& states, std::int64_t page) {
  const SpanScratch scratch(s);
  const auto passes = passes_over(s, s.begin + page * kPageTokens, kSpanTokens, scratch.passes);
  const auto [first, last] = seen_by(passes);
  if (first >= last) return;
  const std::int64_t first_page = first / kLine, end_page = (last + kLine - 1) / kLine;
  float* value_scratch = scratch.values;
  ValueTile v[kSpanPages];
  for (std::int64_t p = first_page; p < end_page; ++p) {
    float* key_scratch = scratch.keys;
    const KeyTile k = keys_at(s, page + p, key_scratch, value_scratch, &v[p]);
    QUIRE_ASSERT(key_scratch <= scratch.end, "room for keys");
    for (const Pass& pass : passes) {
      float* scores[kMaxTogether] = {};
      for (int i = 0; i < pass.count; ++i) scores[i] = scratch.scores + pass.query[i] * kSpanTokens + p * kLine;
      score_tile(s, k, pass, scores, scratch.turned);
    }
  }
  for (const Pass& pass : passes) {
    for (int i = 0; i < pass.count; ++i) {
      const std::int64_t query = pass.query[i];
      const float correction = weigh(scratch.scores + query * kSpanTokens, pass.first[i], pass.last[i],
                                     states.max[query], states.sum[query]);
      correct(s, states, query, correction);
    }
  }
  for (std::int64_t p = first_page; p < end_page && !s.wide.latent; ++p) {
    v[p] = ready_values(s, s.tiles[page + p], keys_ahead(s, page + p + kSpanPages), value_scratch);
  }
  QUIRE_ASSERT(value_scratch <= scratch.keys, "room for values");
  for (std::int64_t c = 0; c < v[first_page].chunks; ++c) {
    const SpanChunk chunk(v, first_page, end_page, c);
    for (const Pass& pass : passes) add_values(s, states, chunk, pass, scratch);
  }
}

void attend(const Stretch& s, const SoftmaxStates& states) {
  if (s.query_bytes != nullptr) return attend_in_short(s, states);
  for (std::int64_t page = 0; page < s.pages; page += kSpanPages) attend_span(s, states, page);
}

[[maybe_unused]] void score(const Stretch& s, const float* log_sum_exp, float* sums) {
  const SpanScratch scratch(s);
  for (std::int64_t page = 0; page < s.pages; ++page) {
    if (s.tiles[page].values == nullptr) continue;
    float* value_scratch = scratch.values;
    float* key_scratch = scratch.keys;
    ValueTile v;
    const KeyTile k = keys_at(s, page, key_scratch, value_scratch, &v);
    for (const Pass& pass : passes_over(s, s.begin + page * kPageTokens, kPageTokens, scratch.passes)) {
      float* scores[kMaxTogether] = {};
      for (int i = 0; i < pass.count; ++i) scores[i] = scratch.weights + i * kLine;
      score_tile(s, k, pass, scores, scratch.turned);
      for (int i = 0; i < pass.count; ++i) {
        const F8 shift = broadcast(log_sum_exp[pass.query[i]]);
        for (int n = 0; n < kLineVectors; ++n) {
          float* to = sums + page * kLine + 8 * n;
          const F8 probability = exp8(load8(scores[i] + 8 * n) - shift);
          store8(to, load8(to) + (in_range(n, pass.first[i], pass.last[i]) ? probability : broadcast(0)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire
