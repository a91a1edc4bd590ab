// Attention over a stretch of pages, with an online softmax. One lane is one token while scores are
// computed: no horizontal sums, and the softmax works on whole vectors. A query's sums are
// added in the same order whichever queries are computed with it.
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

// Queries of one pass over a tile.
struct Together {
  std::int64_t query[kMaxTogether];
  std::int64_t first[kMaxTogether], last[kMaxTogether];  // tokens of the tile that it sees
  int count = 0;
};

using TileScores = float[kMaxTogether][kLine];

QUIRE_INLINE void score_tile(const Stretch& s, const KeyTile& k, const Together& queries, TileScores& scores) {
  const int count = queries.count;
  const float* weights[kMaxTogether] = {};
  float* sums[kMaxTogether] = {};
  alignas(32) TileScores group_sums;
  float bias[kMaxTogether] = {};
  for (int i = 0; i < count; ++i) weights[i] = s.q + queries.query[i] * s.query_stride;
  if (k.channel_scale != nullptr) {
    float* turned = s.scratch;
    for (int i = 0; i < count; ++i, turned += s.query_stride) {
      F8 total = broadcast(0);
      for (std::int64_t d = 0; d < k.dim; d += 8) {
        const F8 q = load8(weights[i] + d);
        store8(turned + d, q * load8(k.channel_scale + d));
        total = fma(q, load8(k.channel_zero + d), total);
      }
      bias[i] = horizontal_sum(total);
      weights[i] = turned;
    }
  }
  const auto clear = [count](TileScores& to) {
    for (int i = 0; i < count; ++i) {
      for (std::int64_t t = 0; t < kLine; t += 8) store8(to[i] + t, broadcast(0));
    }
  };
  clear(scores);
  for (std::int64_t d = 0; d < k.dim; d += k.group_dims) {
    for (int i = 0; i < count; ++i) sums[i] = k.scale != nullptr ? group_sums[i] : scores[i];
    if (k.scale != nullptr) clear(group_sums);
    const std::int64_t end = d + k.group_dims < k.dim ? d + k.group_dims : k.dim;
    k.kernels->fold[count - 1](k.lines, d, end, weights, sums);
    for (int i = 0; k.scale != nullptr && i < count; ++i) {
      const float* scale = k.scale + d / k.group_dims * kLine;
      for (std::int64_t t = 0; t < kLine; t += 8) {
        store8(scores[i] + t, fma(load8(scale + t), load8(group_sums[i] + t), load8(scores[i] + t)));
      }
    }
  }
  for (int i = 0; i < count; ++i) {
    for (std::int64_t t = 0; t < kLine; t += 8) {
      F8 score = load8(scores[i] + t) + broadcast(bias[i]);
      if (s.softcap > 0) {  // cap * tanh(y) = cap * (1 - 2 / (exp(2y) + 1))
        const F8 e = exp8(score * broadcast(2.f / s.softcap));
        score = broadcast(s.softcap) * (broadcast(1) - broadcast(2) / (e + broadcast(1)));
      }
      store8(scores[i] + t, score);
    }
  }
}

// Scores become weights, zero where a query does not see; its maximum and sum go on. Step by step for all
// queries, so that they do not wait for one another. correction: what sums so far are to be multiplied with.
QUIRE_INLINE void weigh(const SoftmaxStates& states, const Together& queries, TileScores& scores,
                        float (&correction)[kMaxTogether]) {
  float new_max[kMaxTogether];
  for (int i = 0; i < queries.count; ++i) {
    F8 x[kLineVectors];
    for (int v = 0; v < kLineVectors; ++v) x[v] = load8(scores[i] + 8 * v);
    if (queries.first[i] > 0 || queries.last[i] < kLine) {
      for (int v = 0; v < kLineVectors; ++v) {
        x[v] = in_range(v, queries.first[i], queries.last[i]) ? x[v] : broadcast(kMinusInfinity);
        store8(scores[i] + 8 * v, x[v]);
      }
    }
    const float max = states.max[queries.query[i]];
    const float tile_max = horizontal_max(max8(max8(x[0], x[1]), max8(x[2], x[3])));
    new_max[i] = tile_max > max ? tile_max : max;
  }
  F8 total[kMaxTogether];
  for (int i = 0; i < queries.count; ++i) {
    total[i] = broadcast(0);
    for (int v = 0; v < kLineVectors; ++v) {
      const F8 x = load8(scores[i] + 8 * v);
      const F8 e = x == broadcast(kMinusInfinity) ? broadcast(0) : exp8(x - broadcast(new_max[i]));
      total[i] = total[i] + e;
      store8(scores[i] + 8 * v, e);
    }
  }
  for (int i = 0; i < queries.count; ++i) {
    float& max = states.max[queries.query[i]];
    float& sum = states.sum[queries.query[i]];
    correction[i] = sum == 0 ? 0.f : 1.f;
    if (sum != 0 && new_max[i] != max) correction[i] = exp8(broadcast(max - new_max[i]))[0];
    sum = sum * correction[i] + horizontal_sum(total[i]);
    max = new_max[i];
  }
}

// Adds to out of the first `count` queries, which all see tokens [first, last).
QUIRE_INLINE void add_values(const ValueTile& v, const float* const* weights, float* const* out, int count,
                             std::int64_t first, std::int64_t last, float* scratch) {
  const std::int64_t groups = v.scale != nullptr ? (v.chunks + v.group_chunks - 1) / v.group_chunks : 0;
  for (std::int64_t g = 0; g < groups; ++g) {
    for (int i = 0; i < count; ++i) {
      float* scaled = scratch + (g * kMaxTogether + i) * kLine;
      for (std::int64_t t = 0; t < kLine; t += 8) {
        store8(scaled + t, load8(weights[i] + t) * load8(v.scale + g * kLine + t));
      }
    }
  }
  for (std::int64_t c = 0; c < v.chunks; ++c) {
    const std::int64_t g = groups > 0 ? c / v.group_chunks : 0;
    const float* chunk_weights[kMaxTogether] = {};
    float* sums[kMaxTogether] = {};
    for (int i = 0; i < count; ++i) {
      chunk_weights[i] = groups > 0 ? scratch + (g * kMaxTogether + i) * kLine : weights[i];
      sums[i] = out[i] + c * kLine;
    }
    const bool tail = v.tail != nullptr && c + 1 == v.chunks;
    (tail ? kLineKernels<F32Line> : *v.kernels)
        .fold[count - 1](tail ? float_lines(v.tail) : v.chunk(c), first, last, chunk_weights, sums);
    for (int i = 0; v.zero != nullptr && i < count; ++i) {
      F8 total = broadcast(0);
      for (int n = 0; n < kLineVectors; ++n) {
        const F8 zero = load8(v.zero + g * kLine + 8 * n);
        total = fma(load8(weights[i] + 8 * n), in_range(n, first, last) ? zero : broadcast(0), total);
      }
      const F8 zeros = broadcast(horizontal_sum(total));
      for (std::int64_t d = 0; d < kLine; d += 8) store8(sums[i] + d, load8(sums[i] + d) + zeros);
    }
  }
}

QUIRE_INLINE void attend_together(const Stretch& s, const SoftmaxStates& states, const KeyTile& k, const ValueTile& v,
                                  const Together& queries) {
  alignas(32) TileScores scores;
  score_tile(s, k, queries, scores);
  const float* weights[kMaxTogether] = {};
  float* out[kMaxTogether] = {};
  float correction[kMaxTogether];
  weigh(states, queries, scores, correction);
  bool alike = true;
  for (int i = 0; i < queries.count; ++i) {
    weights[i] = scores[i];
    out[i] = states.out + queries.query[i] * s.value_stride;
    alike = alike && queries.first[i] == queries.first[0] && queries.last[i] == queries.last[0];
    if (correction[i] == 1) continue;
    for (std::int64_t d = 0; d < s.value_stride; d += 8)
      store8(out[i] + d, load8(out[i] + d) * broadcast(correction[i]));
  }
  float* scratch = s.scratch + kMaxTogether * s.query_stride;
  if (alike) return add_values(v, weights, out, queries.count, queries.first[0], queries.last[0], scratch);
  for (int i = 0; i < queries.count; ++i) {
    add_values(v, weights + i, out + i, 1, queries.first[i], queries.last[i], scratch);
  }
}

// Tiles of a head are far apart, a page each, so the hardware does not see the next one coming. In large
// ones it soon does.
constexpr std::int64_t kSmallTile = 2560;
QUIRE_INLINE void prefetch_tiles(const Stretch& s, std::int64_t page) {
  if (page >= s.pages || s.tiles[page].values == nullptr) return;
  const PageTileLayouts& layout = s.tiles[page].packed ? s.packed : s.wide;
  const auto prefetch = [](const std::byte* tile, std::int64_t bytes) {
    const std::int64_t end = bytes > kSmallTile ? kSmallTile / 4 : bytes;
    for (std::int64_t i = 0; i < end; i += 64) __builtin_prefetch(tile + i);
  };
  prefetch(s.tiles[page].keys, layout.keys.bytes);
  prefetch(s.tiles[page].values, layout.values.bytes);
}

// Calls body for the queries that see anything of each page, three at a time; four are two and two.
template <bool kValues, class Body>
QUIRE_INLINE void for_each_pass(const Stretch& s, Body body) {
  for (std::int64_t page = 0; page < s.pages; ++page) {
    const std::int64_t begin = s.begin + page * kPageTokens;
    const auto first_of = [&](std::int64_t i) { return s.first[i] > begin ? s.first[i] - begin : 0; };
    const auto last_of = [&](std::int64_t i) {
      return s.last[i] - begin < kPageTokens ? s.last[i] - begin : kPageTokens;
    };
    std::int64_t left = 0;
    for (std::int64_t i = 0; i < s.queries; ++i) left += first_of(i) < last_of(i);
    if (left == 0) continue;
    prefetch_tiles(s, page + 1);
    KeyTile k;
    ValueTile v;
    make_ready<kValues>(s, s.tiles[page], k, v);
    Together queries;
    for (std::int64_t i = 0; left > 0; ++i) {
      if (first_of(i) >= last_of(i)) continue;
      queries.query[queries.count] = i;
      queries.first[queries.count] = first_of(i);
      queries.last[queries.count] = last_of(i);
      ++queries.count;
      const std::int64_t pass = left == 4 || left == 2 ? 2 : left == 1 ? 1 : kMaxTogether;
      if (queries.count < pass) continue;
      body(page, k, v, queries);
      left -= queries.count;
      queries.count = 0;
    }
  }
}

void attend(const Stretch& s, const SoftmaxStates& states) {
  for_each_pass<true>(s, [&](std::int64_t, const KeyTile& k, const ValueTile& v, const Together& queries) {
    attend_together(s, states, k, v, queries);
  });
}

void score(const Stretch& s, const float* log_sum_exp, float* sums) {
  for_each_pass<false>(s, [&](std::int64_t page, const KeyTile& k, const ValueTile&, const Together& queries) {
    alignas(32) TileScores scores;
    score_tile(s, k, queries, scores);
    for (int i = 0; i < queries.count; ++i) {
      const F8 shift = broadcast(log_sum_exp[queries.query[i]]);
      for (int v = 0; v < kLineVectors; ++v) {
        float* to = sums + page * kLine + 8 * v;
        const F8 probability = exp8(load8(scores[i] + 8 * v) - shift);
        store8(to, load8(to) + (in_range(v, queries.first[i], queries.last[i]) ? probability : broadcast(0)));
      }
    }
  });
}

}  // namespace
}  // namespace quire
