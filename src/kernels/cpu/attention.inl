// Attention over one segment of the cache, in tiles of 32 tokens with an online softmax. A tile of
// keys is turned so that one lane is one token: scores need no horizontal sums, and the softmax
// works on whole vectors. The tile is shared by all queries, so its conversion is paid once.

namespace quire {
namespace {

constexpr std::int64_t kTileVectors = kTileTokens / 8;

// Values [d, d + width) of one token, zero beyond; width is at most 8.
template <KvType kType>
QUIRE_INLINE F8 load_values(const std::byte* row, std::int64_t d, std::int64_t width) {
  if constexpr (kType == KvType::f32) {
    const float* at = reinterpret_cast<const float*>(row) + d;
    return width == 8 ? load8(at) : load_part(at, width);
  } else {
    const std::uint16_t* at = reinterpret_cast<const std::uint16_t*>(row) + d;
    if (width == 8) return load8_f16(at);
    F8 v = broadcast(0);
    for (std::int64_t j = 0; j < width; ++j) v[j] = load_f16(at + j);
    return v;
  }
}

// Tokens beyond `count` are never read; their keys are 0.
template <KvType kType>
QUIRE_INLINE void load_keys(const KvStream& keys, std::int64_t begin, std::int64_t count, std::int64_t head_dim,
                            float* keys_t) {  // [head_dim, 32]
  for (std::int64_t d = 0; d < head_dim; d += 8) {
    const std::int64_t width = head_dim - d < 8 ? head_dim - d : 8;
    for (std::int64_t t = 0; t < kTileTokens; t += 8) {
      F8 block[8];
      for (std::int64_t i = 0; i < 8; ++i) {
        block[i] = t + i < count ? load_values<kType>(keys.at(0, begin + t + i), d, width) : broadcast(0);
      }
      transpose8(block);
      for (std::int64_t j = 0; j < width; ++j) store8(keys_t + (d + j) * kTileTokens + t, block[j]);
    }
  }
}

template <KvType kType>
QUIRE_INLINE void load_value_rows(const KvStream& values, std::int64_t begin, std::int64_t count, std::int64_t head_dim,
                                  std::int64_t padded_dim, float* rows) {  // [32, padded_dim]
  for (std::int64_t t = 0; t < count; ++t) {
    for (std::int64_t d = 0; d < padded_dim; d += 8) {
      const std::int64_t width = head_dim - d < 8 ? head_dim - d : 8;
      store8(rows + t * padded_dim + d, load_values<kType>(values.at(0, begin + t), d, width));
    }
  }
}

QUIRE_INLINE void load_tile(const AttentionSegment& s, std::int64_t begin, std::int64_t count, float* keys_t,
                            float* values) {
  if (s.keys.type == KvType::f32) {
    load_keys<KvType::f32>(s.keys, begin, count, s.head_dim, keys_t);
  } else {
    load_keys<KvType::f16>(s.keys, begin, count, s.head_dim, keys_t);
  }
  if (s.values.type == KvType::f32) {
    load_value_rows<KvType::f32>(s.values, begin, count, s.head_dim, s.padded_dim, values);
  } else {
    load_value_rows<KvType::f16>(s.values, begin, count, s.head_dim, s.padded_dim, values);
  }
}

// out = out * correction + sum over tokens of weight * value, kVectors registers of it at a time.
template <int kVectors>
QUIRE_INLINE void accumulate(const float* weights, std::int64_t first, std::int64_t last, const float* values,
                             std::int64_t padded_dim, float correction, float* out) {
  F8 sums[kVectors];
  for (int v = 0; v < kVectors; ++v) sums[v] = load8(out + 8 * v) * broadcast(correction);
  for (std::int64_t t = first; t < last; ++t) {
    const F8 w = broadcast(weights[t]);
    for (int v = 0; v < kVectors; ++v) sums[v] = fma(w, load8(values + t * padded_dim + 8 * v), sums[v]);
  }
  for (int v = 0; v < kVectors; ++v) store8(out + 8 * v, sums[v]);
}

// Dot products of kQueries queries with all 32 keys. Two at a time keep eight sums in flight, as
// many as two multiply-add units with a latency of four need.
template <int kQueries>
QUIRE_INLINE void score_tile(const AttentionSegment& s, const std::int64_t* queries, const float* keys_t,
                             F8 (*scores)[kTileVectors]) {
  F8 sums[kQueries][kTileVectors] = {};
  const float* q[kQueries];
  for (int i = 0; i < kQueries; ++i) q[i] = s.q + queries[i] * s.padded_dim;
  for (std::int64_t d = 0; d < s.head_dim; ++d) {
    for (int v = 0; v < kTileVectors; ++v) {
      const F8 keys = load8(keys_t + d * kTileTokens + 8 * v);
      for (int i = 0; i < kQueries; ++i) sums[i][v] = fma(broadcast(q[i][d]), keys, sums[i][v]);
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    for (int v = 0; v < kTileVectors; ++v) scores[i][v] = sums[i][v];
  }
}

// Folds the scores of query i over tokens [first, last) of the tile into its running softmax.
QUIRE_INLINE void fold_tile(const AttentionSegment& s, std::int64_t i, F8 (&scores)[kTileVectors], std::int64_t first,
                            std::int64_t last, const float* values) {
  if (s.softcap > 0) {
    for (F8& score : scores) {  // cap * tanh(y) = cap * (1 - 2 / (exp(2y) + 1))
      const F8 e = exp8(score * broadcast(2.f / s.softcap));
      score = broadcast(s.softcap) * (broadcast(1) - broadcast(2) / (e + broadcast(1)));
    }
  }
  alignas(32) float weights[kTileTokens];
  for (int v = 0; v < kTileVectors; ++v) store8(weights + 8 * v, scores[v]);
  constexpr float kMinusInfinity = -__builtin_inff();
  for (std::int64_t t = 0; t < first; ++t) weights[t] = kMinusInfinity;
  for (std::int64_t t = last; t < kTileTokens; ++t) weights[t] = kMinusInfinity;

  F8 top = load8(weights);
  for (int v = 1; v < kTileVectors; ++v) top = max8(top, load8(weights + 8 * v));
  const float old_max = s.max[i];
  const float tile_max = horizontal_max(top);
  const float new_max = tile_max > old_max ? tile_max : old_max;
  const F8 shift = broadcast(new_max);
  F8 total = broadcast(0);
  for (int v = 0; v < kTileVectors; ++v) {
    const F8 score = load8(weights + 8 * v);
    F8 e = exp8(score - shift);
    e = score == broadcast(kMinusInfinity) ? broadcast(0) : e;
    total = total + e;
    store8(weights + 8 * v, e);
  }
  const float correction = s.sum[i] == 0 ? 0.f : exp8(broadcast(old_max - new_max))[0];
  s.sum[i] = s.sum[i] * correction + horizontal_sum(total);
  s.max[i] = new_max;

  float* out = s.out + i * s.padded_dim;
  std::int64_t d = 0;
  for (; d + 64 <= s.padded_dim; d += 64) {
    accumulate<8>(weights, first, last, values + d, s.padded_dim, correction, out + d);
  }
  for (; d < s.padded_dim; d += 8) {
    accumulate<1>(weights, first, last, values + d, s.padded_dim, correction, out + d);
  }
}

void attend(const AttentionSegment& s) {
  for (std::int64_t i = 0; i < s.queries; ++i) {
    s.max[i] = -__builtin_inff();
    s.sum[i] = 0;
  }
  std::memset(s.out, 0, static_cast<std::size_t>(s.queries * s.padded_dim) * sizeof(float));
  float* keys_t = s.tile;
  float* values = s.tile + kTileTokens * s.padded_dim;
  for (std::int64_t begin = s.begin; begin < s.end; begin += kTileTokens) {
    const std::int64_t count = s.end - begin < kTileTokens ? s.end - begin : kTileTokens;
    const auto first_of = [&](std::int64_t i) {
      const std::int64_t after = s.position[i] + 1;
      const std::int64_t visible = s.window > 0 && after > s.window ? after - s.window : 0;
      return visible > begin ? visible - begin : 0;
    };
    const auto last_of = [&](std::int64_t i) {
      const std::int64_t after = s.position[i] + 1;
      return after - begin < count ? after - begin : count;
    };
    std::int64_t pair[2];
    int waiting = 0;
    bool loaded = false;
    for (std::int64_t i = 0; i < s.queries; ++i) {
      if (first_of(i) < last_of(i)) pair[waiting++] = i;
      if (waiting == 0 || (waiting == 1 && i + 1 < s.queries)) continue;
      if (!loaded) load_tile(s, begin, count, keys_t, values);
      loaded = true;
      F8 scores[2][kTileVectors];
      if (waiting == 2) {
        score_tile<2>(s, pair, keys_t, scores);
      } else {
        score_tile<1>(s, pair, keys_t, scores);
      }
      for (int w = 0; w < waiting; ++w) {
        fold_tile(s, pair[w], scores[w], first_of(pair[w]), last_of(pair[w]), values);
      }
      waiting = 0;
    }
  }
}

}  // namespace
}  // namespace quire
