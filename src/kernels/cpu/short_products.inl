// Attention where the machine adds up short products: scores are products of bytes (key_bytes.inl), weighted sums of
// values products of bytes (value_bytes.inl) or of bf16 (value_pairs.inl). Whether a page is read so depends on its
// layout alone, so that one query or many give the same bits.
#include "kernels/cpu/span_values.inl"

namespace quire {
namespace {

#if defined(__AVX512BF16__)

// Four pages, the first of which is number `page`. Where few queries read them, keys and values are multiplied as soon
// as they are made.
void attend_span_in_short(const Stretch& s, const SoftmaxStates& states, std::int64_t page, const Passes& passes,
                          const SpanScratch& scratch) {
  const auto [first, last] = seen_by(passes);
  if (first >= last) return;
  const bool one_group = count_queries(passes) <= kByteQueries;
  ByteTile keys[kSpanPages];
  float* key_scratch = scratch.keys;
  SpanValues values(s, page, one_group, scratch.values);
  const auto layout_of = [&](std::int64_t p) QUIRE_LAMBDA { return (s.tiles[page + p].packed ? &s.packed : &s.wide); };
  const auto make_keys = [&](std::int64_t p) QUIRE_LAMBDA {
    const PageTiles& tiles = s.tiles[page + p];
    const TileLayout& layout = layout_of(p)->keys;
    keys[p] = make_key_bytes(layout, tiles.keys, tiles_ahead(s, page + p).keys, key_scratch);
    key_scratch += byte_tile_floats(layout.dim);
  };
  const std::int64_t first_page = first / kLine, end_page = (last + kLine - 1) / kLine;
  if (!one_group) {
    for (std::int64_t p = first_page; p < end_page; ++p) make_keys(p);
    for (std::int64_t p = first_page; p < end_page; ++p) values.make(p, first, last);
  }
  GroupAtHand at_hand;
  bool first_group = true;
  for_groups(passes, [&](const QueryGroup& group) QUIRE_LAMBDA {
    const std::uint32_t* queries[kByteQueries] = {};
    for (int i = 0; i < group.count; ++i)
      queries[i] = s.query_bytes + group.query[i] * short_query_words(s.query_stride);
    for (std::int64_t p = group.first / kLine; p * kLine < group.last; ++p) {
      float* scores[kByteQueries] = {};
      for (int i = 0; i < group.count; ++i) scores[i] = at_hand.scores[i] + p * kLine;
      if (one_group) {
        const TileLayout& layout = layout_of(p)->keys;
        const PageTiles& tiles = s.tiles[page + p];
        with_byte_format(layout.format, [&](auto format) QUIRE_LAMBDA {
          kByFewQueries<OfFormat<format>::template Score>[group.count - 1](
              layout, tiles.keys, fetched_in_step(s, page, p), queries, s.query_stride / 4, scores);
        });
      } else {
        const int lines_each = first_group ? keys[p].lines_each : 0;
        ByLinesAndQueries<ScoreBytes>::with(lines_each, group.count)(keys[p], queries, s.query_stride / 4, scores);
      }
      for (int i = 0; s.softcap > 0 && i < group.count; ++i) cap_scores(scores[i], s.softcap);
    }
    if (!values.any_in_bytes()) {
      weigh_group<Weights::pairs>(s, states, group, at_hand);
    } else if (values.all_in_bytes(group.first / kLine, (group.last + kLine - 1) / kLine)) {
      weigh_group<Weights::floats>(s, states, group, at_hand);
    } else {
      weigh_group<Weights::both>(s, states, group, at_hand);
    }
    if (one_group) return values.make_and_add(states, group, at_hand);
    values.add(states, group, at_hand, first_group);
    first_group = false;
  });
  QUIRE_ASSERT(key_scratch <= scratch.end, "room for keys");
  QUIRE_ASSERT(values.scratch_end() <= scratch.keys, "room for values");
}

void attend_in_short(const Stretch& s, const SoftmaxStates& states) {
  const SpanScratch scratch(s);
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
    attend_span_in_short(s, states, page, passes, scratch);
  }
}

#else

QUIRE_INLINE void attend_in_short(const Stretch&, const SoftmaxStates&) {
  QUIRE_ASSERT(false, "queries are rounded to bytes only for kernels that multiply them");
}

#endif

}  // namespace
}  // namespace quire
