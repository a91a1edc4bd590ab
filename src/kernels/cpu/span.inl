// Lines of a span of four pages: scores of the queries of a pass, their weights, weighted sums of values.
#include "kernels/cpu/tiles.inl"

namespace quire {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();

// Lanes of vector v whose token is in [first, last).
QUIRE_INLINE I8 in_range(int v, std::int64_t first, std::int64_t last) {
  const auto splat = [](std::int64_t x) {
    const auto n = static_cast<std::int32_t>(x);
    return I8{n, n, n, n, n, n, n, n};
  };
  const I8 token = I8{0, 1, 2, 3, 4, 5, 6, 7} + splat(8 * v);
  return (token >= splat(first)) & (token < splat(last));
}

// Queries of one pass, and the tokens they see, counted from the start of what is looked at.
struct Pass {
  std::int32_t query[kMaxTogether];
  std::int32_t first[kMaxTogether], last[kMaxTogether];
  std::int32_t count = 0;
};
static_assert(sizeof(Pass) == kPassFloats * sizeof(float));

struct Passes {
  const Pass* first;
  const Pass* last;
  const Pass* begin() const { return first; }
  const Pass* end() const { return last; }
};

// The queries that see anything of the `tokens` from `begin` on, three at a time; four are two and two.
QUIRE_INLINE Passes passes_over(const Stretch& s, std::int64_t begin, std::int64_t tokens, Pass* passes) {
  const auto first_of = [&](std::int64_t i) { return s.first[i] > begin ? s.first[i] - begin : 0; };
  const auto last_of = [&](std::int64_t i) { return s.last[i] - begin < tokens ? s.last[i] - begin : tokens; };
  std::int64_t left = 0;
  for (std::int64_t i = 0; i < s.queries; ++i) left += first_of(i) < last_of(i);
  std::size_t count = 0;
  Pass pass;
  for (std::int64_t i = 0; left > 0; ++i) {
    if (first_of(i) >= last_of(i)) continue;
    pass.query[pass.count] = static_cast<std::int32_t>(i);
    pass.first[pass.count] = static_cast<std::int32_t>(first_of(i));
    pass.last[pass.count] = static_cast<std::int32_t>(last_of(i));
    ++pass.count;
    if (pass.count < (left == 4 || left == 2 ? 2 : left == 1 ? 1 : kMaxTogether)) continue;
    passes[count++] = pass;
    left -= pass.count;
    pass.count = 0;
  }
  return {passes, passes + count};
}

// Tokens that any of the queries sees; none where first is not below last.
struct Seen {
  std::int64_t first, last;
};
QUIRE_INLINE Seen seen_by(const Passes& passes) {
  Seen seen{kSpanTokens, 0};
  for (const Pass& pass : passes) {
    for (int i = 0; i < pass.count; ++i) {
      seen.first = pass.first[i] < seen.first ? pass.first[i] : seen.first;
      seen.last = pass.last[i] > seen.last ? pass.last[i] : seen.last;
    }
  }
  return seen;
}

// A query's weighted sums so far, under a new maximum.
QUIRE_INLINE void correct(const Stretch& s, const SoftmaxStates& states, std::int64_t query, float correction) {
  if (correction == 1) return;
  float* out = states.out + query * s.value_stride;
  for (std::int64_t d = 0; d < s.value_stride; d += 8) store8(out + d, load8(out + d) * broadcast(correction));
}

// cap * tanh(y) = cap * (1 - 2 / (exp(2y) + 1))
QUIRE_INLINE void cap_scores(float* scores, float cap) {
  for (std::int64_t t = 0; t < kLine; t += 8) {
    const F8 e = exp8(load8(scores + t) * broadcast(2.f / cap));
    store8(scores + t, broadcast(cap) * (broadcast(1) - broadcast(2) / (e + broadcast(1))));
  }
}

// turned: room for the queries as channels' scales change them.
QUIRE_INLINE void score_tile(const Stretch& s, const KeyTile& k, const Pass& queries, float* const* scores,
                             float* turned) {
  const float* q[kMaxTogether] = {};
  float bias[kMaxTogether] = {};
  for (int i = 0; i < queries.count; ++i) q[i] = s.q + queries.query[i] * s.query_stride;
  if (k.channel_scale != nullptr) {
    for (int i = 0; i < queries.count; ++i, turned += s.query_stride) {
      F8 total = broadcast(0);
      for (std::int64_t d = 0; d < k.dim; d += 8) {
        const F8 x = load8(q[i] + d);
        store8(turned + d, x * load8(k.channel_scale + d));
        total = fma(x, load8(k.channel_zero + d), total);
      }
      bias[i] = horizontal_sum(total);
      q[i] = turned;
    }
  }
  if (k.even) {
    score_even(k, s.query_codes, queries.query, queries.count, s.query_stride, scores);
  } else {
    k.kernels->score[queries.count - 1](k, q, scores);
  }
  for (int i = 0; i < queries.count; ++i) {
    for (std::int64_t t = 0; bias[i] != 0 && t < kLine; t += 8) {
      store8(scores[i] + t, load8(scores[i] + t) + broadcast(bias[i]));
    }
    if (s.softcap > 0) cap_scores(scores[i], s.softcap);
  }
}

// Scores of the tokens [first, last) become weights, zero beside them in pages that hold any; the query's
// maximum and sum go on. Returns what its sums so far are to be multiplied with.
QUIRE_INLINE float weigh(float* scores, std::int64_t first, std::int64_t last, float& max, float& sum) {
  const std::int64_t begin = first / kLine * kLine;
  F8 largest[kLineVectors];
  for (F8& x : largest) x = broadcast(kMinusInfinity);
  for (std::int64_t page = begin; page < last; page += kLine) {
    F8 x[kLineVectors];
    for (int v = 0; v < kLineVectors; ++v) x[v] = load8(scores + page + 8 * v);
    if (first > page || last < page + kLine) {
      for (int v = 0; v < kLineVectors; ++v) {
        x[v] = in_range(v, first - page, last - page) ? x[v] : broadcast(kMinusInfinity);
        store8(scores + page + 8 * v, x[v]);
      }
    }
    for (int v = 0; v < kLineVectors; ++v) largest[v] = max8(largest[v], x[v]);
  }
  const float here = horizontal_max(max8(max8(largest[0], largest[1]), max8(largest[2], largest[3])));
  const float new_max = here > max ? here : max;
  F8 total[kLineVectors];
  for (F8& x : total) x = broadcast(0);
  const auto weigh_page = [&](std::int64_t page, auto whole) QUIRE_LAMBDA {
    unrolled<kLineVectors>([&](auto v) QUIRE_LAMBDA {
      F8 e = exp8(load8(scores + page + 8 * v) - broadcast(new_max));
      if constexpr (!whole) e = in_range(v, first - page, last - page) ? e : broadcast(0);
      total[v] = total[v] + e;
      store8(scores + page + 8 * v, e);
    });
  };
  for (std::int64_t page = begin; page < last; page += kLine) {
    if (first > page || last < page + kLine) {
      weigh_page(page, std::false_type{});
    } else {
      weigh_page(page, std::true_type{});
    }
  }
  float correction = sum == 0 ? 0.f : 1.f;
  if (sum != 0 && new_max != max) correction = exp8(broadcast(max - new_max))[0];
  sum = sum * correction + horizontal_sum((total[0] + total[1]) + (total[2] + total[3]));
  max = new_max;
  return correction;
}

// A chunk of the values of pages [first_page, end_page).
struct SpanChunk {
  SpanChunk(const ValueTile* v, std::int64_t first_page_, std::int64_t end_page_, std::int64_t number_)
      : first_page(first_page_), end_page(end_page_), number(number_) {
    for (std::int64_t p = first_page; p < end_page; ++p) {
      const bool tail = v[p].tail != nullptr && number + 1 == v[p].chunks;
      const std::int64_t group = v[p].scale != nullptr ? number / v[p].group_chunks * kLine : 0;
      kernels[p] = tail ? &kLineKernels<F32Line> : v[p].kernels;
      lines[p] = tail ? float_lines(v[p].tail) : v[p].chunk(number);
      scale[p] = v[p].scale != nullptr ? v[p].scale + group : nullptr;
      zero[p] = v[p].zero != nullptr ? v[p].zero + group : nullptr;
      scaled = scaled || scale[p] != nullptr;
    }
  }

  // Adds tokens [first, last) to sums of the first `count` queries.
  QUIRE_INLINE void add(int count, std::int64_t first, std::int64_t last, const float* const* weights,
                        float* const* sums) const {
    while (first < last) {
      const std::int64_t page = first / kLine;
      std::int64_t end = page + 1;
      while (end * kLine < last && kernels[end] == kernels[page]) ++end;
      const std::int64_t stop = end * kLine < last ? end * kLine : last;
      kernels[page]->add[count - 1](lines, first, stop, weights, sums);
      first = stop;
    }
  }

  std::int64_t first_page, end_page, number;
  const LineKernels* kernels[kSpanPages];
  Lines lines[kSpanPages];
  const float* scale[kSpanPages];  // [32], or null
  const float* zero[kSpanPages];   // [32], or null
  bool scaled = false;
};

// Tokens that all of the queries see are added for all at once, those before and after one query at a time.
QUIRE_INLINE void add_seen(const SpanChunk& chunk, const Pass& queries, const float* const* weights,
                           float* const* sums) {
  std::int64_t first = 0, last = kSpanTokens;
  for (int i = 0; i < queries.count; ++i) {
    first = queries.first[i] > first ? queries.first[i] : first;
    last = queries.last[i] < last ? queries.last[i] : last;
  }
  if (first >= last) first = last = kSpanTokens;
  for (int i = 0; i < queries.count; ++i) {
    chunk.add(1, queries.first[i], queries.last[i] < first ? queries.last[i] : first, weights + i, sums + i);
  }
  chunk.add(queries.count, first, last, weights, sums);
  for (int i = 0; i < queries.count; ++i) chunk.add(1, last, queries.last[i], weights + i, sums + i);
}

// Room in a stretch's scratch.
struct SpanScratch {
  explicit SpanScratch(const Stretch& s) {
    float* at = s.scratch;
    scores = take(at, s.queries * kSpanTokens);
    passes = reinterpret_cast<Pass*>(take(at, s.queries * kPassFloats));
    turned = take(at, kMaxTogether * s.query_stride);
    weights = take(at, kMaxTogether * kSpanTokens);
    values = take(at, kSpanPages * tile_scratch_floats(s.value_stride));
    keys = at;
    end = s.scratch + stretch_scratch_floats(s.queries, s.query_stride, s.value_stride);
  }
  float* scores;  // [queries, kSpanTokens]; then weights
  Pass* passes;
  float* turned;   // queries of a pass, as channels' scales change them
  float* weights;  // weights of a pass, as tokens' scales change them
  float* values;
  float* keys;
  float* end;
};

// Weighted sums of a chunk are added to what queries have.
QUIRE_INLINE void add_values(const Stretch& s, const SoftmaxStates& states, const SpanChunk& chunk, const Pass& queries,
                             const SpanScratch& scratch) {
  const float* weights[kMaxTogether] = {};
  float* sums[kMaxTogether] = {};
  for (int i = 0; i < queries.count; ++i) {
    weights[i] = scratch.scores + queries.query[i] * kSpanTokens;
    sums[i] = states.out + queries.query[i] * s.value_stride + chunk.number * kLine;
  }
  const float* plain[kMaxTogether] = {weights[0], weights[1], weights[2]};
  for (int i = 0; chunk.scaled && i < queries.count; ++i) {
    float* to = scratch.weights + i * kSpanTokens;
    weights[i] = to;
    for (std::int64_t page = chunk.first_page; page < chunk.end_page; ++page) {
      const float* scale = chunk.scale[page];
      unrolled<kLineVectors>([&](auto v) QUIRE_LAMBDA {
        const F8 weight = load8(plain[i] + page * kLine + 8 * v);
        store8(to + page * kLine + 8 * v, scale != nullptr ? weight * load8(scale + 8 * v) : weight);
      });
    }
  }
  add_seen(chunk, queries, weights, sums);
  for (std::int64_t page = chunk.first_page; page < chunk.end_page; ++page) {
    for (int i = 0; chunk.zero[page] != nullptr && i < queries.count; ++i) {
      const std::int64_t first = queries.first[i] - page * kLine, last = queries.last[i] - page * kLine;
      if (first >= kLine || last <= 0) continue;
      F8 total = broadcast(0);
      for (int n = 0; n < kLineVectors; ++n) {
        const F8 zero = in_range(n, first, last) ? load8(chunk.zero[page] + 8 * n) : broadcast(0);
        total = fma(load8(plain[i] + page * kLine + 8 * n), zero, total);
      }
      const F8 zeros = broadcast(horizontal_sum(total));
      for (std::int64_t d = 0; d < kLine; d += 8) store8(sums[i] + d, load8(sums[i] + d) + zeros);
    }
  }
}

// Tiles of a head are far apart, a page each, so the hardware does not see the next one coming. Here is what comes, of
// this stretch or after it; null where that is not known.
QUIRE_INLINE const PageTiles* coming_tiles(const Stretch& s, std::int64_t page) {
  if (page >= s.pages && s.ahead == nullptr) return nullptr;
  const PageTiles& tiles = page < s.pages ? s.tiles[page] : s.ahead[page - s.pages];
  return tiles.keys != nullptr ? &tiles : nullptr;
}

// What is read four pages later; the same page where that is not known.
QUIRE_INLINE const PageTiles& tiles_ahead(const Stretch& s, std::int64_t page) {
  const PageTiles* later = coming_tiles(s, page + kSpanPages);
  return later != nullptr ? *later : s.tiles[page];
}

// Few queries read a span in 2 x 4 steps, keys of its pages, then values. What a step fetches is read so many steps
// later that 8 to 12 KiB lie between: with less it comes too late, with more some of it is let go of and never comes.
constexpr std::int64_t kSpanSteps = 2 * kSpanPages;
constexpr std::int64_t steps_ahead(std::int64_t tile_bytes) {
  return tile_bytes >= 8 << 10 ? 1 : tile_bytes >= 4 << 10 ? 2 : tile_bytes >= 2 << 10 ? 6 : kSpanSteps;
}
QUIRE_INLINE const std::byte* fetched_in_step(const Stretch& s, std::int64_t span, std::int64_t step) {
  const PageTiles& here = s.tiles[span + step % kSpanPages];
  const std::int64_t later = step + steps_ahead((here.packed ? s.packed : s.wide).keys.bytes);
  const PageTiles* const coming = coming_tiles(s, span + later / kSpanSteps * kSpanPages + later % kSpanPages);
  const PageTiles& tiles = coming != nullptr ? *coming : here;
  return later % kSpanSteps < kSpanPages ? tiles.keys : tiles.values;
}

// Values are fetched while the keys of their page are read, keys while the values four pages before them are.
QUIRE_INLINE Ahead keys_ahead(const Stretch& s, std::int64_t page) {
  const PageTiles* tiles = coming_tiles(s, page);
  if (tiles == nullptr) return {nullptr, 0};
  return {tiles->keys, (tiles->packed ? s.packed : s.wide).keys.bytes};
}
QUIRE_INLINE Ahead values_ahead(const Stretch& s, std::int64_t page) {
  return {s.tiles[page].values, (s.tiles[page].packed ? s.packed : s.wide).values.bytes};
}

}  // namespace
}  // namespace quire
