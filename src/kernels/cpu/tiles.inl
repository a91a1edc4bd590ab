// Tiles made ready for the inner loops: lines to read, and scales as floats, one line of 32 tokens
// per group of dimensions.
#include "core/check.h"
#include "kernels/cpu/even_keys.inl"

namespace quire {
namespace {

// Weighted sums of values, 32 dimensions at a time: a chunk has one line per token.
struct ValueTile {
  const LineKernels* kernels;
  Lines lines;  // of chunk 0
  std::int64_t chunk_bytes;
  std::int64_t chunks;
  const float* tail;  // [32, 32], the last chunk where it is not whole in memory; or null
  std::int64_t group_chunks;
  const float* scale;  // [groups, 32], or null
  const float* zero;   // [groups, 32], or null

  QUIRE_INLINE Lines chunk(std::int64_t c) const {
    return {lines.codes + c * chunk_bytes, lines.stride, lines.fifth_bits + c * chunk_bytes / 4,
            lines.ahead + c * kLine * lines.ahead_stride, lines.ahead_stride};
  }
};

QUIRE_INLINE Lines float_lines(const float* x) {
  return lines_at_hand(x, kLine * static_cast<std::int64_t>(sizeof(float)));
}

// What comes next is aligned too.
QUIRE_INLINE float* take(float*& scratch, std::int64_t floats) {
  float* taken = scratch;
  scratch += (floats + 15) / 16 * 16;
  return taken;
}

// Bytes of a value in formats that keep values apart; 0 for lines of packed bits.
QUIRE_INLINE std::int64_t element_bytes(KvFormat format) {
  switch (format) {
    case KvFormat::f32:
      return 4;
    case KvFormat::f16:
    case KvFormat::bf16:
      return 2;
    case KvFormat::fp8:
    case KvFormat::q8:
      return 1;
    default:
      return 0;
  }
}
QUIRE_INLINE std::int64_t line_bytes(KvFormat format) {
  if (format == KvFormat::q2 || format == KvFormat::k2) return 8;
  const std::int64_t element = element_bytes(format);
  return element > 0 ? kLine * element : 16;
}

// Scales or zero points, `count` of them, zero beyond to a multiple of 8.
QUIRE_INLINE float* floats_of_scales(const TileLayout& l, const std::byte* from, std::int64_t count, float*& scratch) {
  float* to = take(scratch, (count + 7) / 8 * 8);
  const auto* halves = reinterpret_cast<const std::uint16_t*>(from);
  const F8 unit = broadcast(l.format == KvFormat::fp8 ? kFp8Unit : 1.f);
  for (std::int64_t i = 0; i < count; i += 8) {
    std::uint16_t part[8] = {};
    if (count - i < 8) std::memcpy(part, halves + i, static_cast<std::size_t>(count - i) * sizeof part[0]);
    const std::uint16_t* at = count - i < 8 ? part : halves + i;
    store8(to + i, l.zeros > 0 ? load8_f16(at) : load8_bf16(at) * unit);
  }
  return to;
}

QUIRE_INLINE F8 evens(F8 a, F8 b) { return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14); }
QUIRE_INLINE F8 odds(F8 a, F8 b) { return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15); }

// [32, groups] of a tile in rows becomes [groups, 32].
QUIRE_INLINE const float* scales_by_group(const TileLayout& l, const std::byte* from, float*& scratch) {
  const std::int64_t groups = l.groups;
  const float* by_token = floats_of_scales(l, from, kLine * groups, scratch);
  if (groups == 1) return by_token;
  float* to = take(scratch, kLine * groups);
  if (groups == 2 || groups == 4) {
    for (std::int64_t t = 0; t < kLine; t += 8) {
      const float* at = by_token + t * groups;
      F8 even = evens(load8(at), load8(at + 8)), odd = odds(load8(at), load8(at + 8));
      if (groups == 4) {
        const F8 more_even = evens(load8(at + 16), load8(at + 24)), more_odd = odds(load8(at + 16), load8(at + 24));
        store8(to + 2 * kLine + t, odds(even, more_even));
        store8(to + 3 * kLine + t, odds(odd, more_odd));
        even = evens(even, more_even);
        odd = evens(odd, more_odd);
      }
      store8(to + t, even);
      store8(to + kLine + t, odd);
    }
    return to;
  }
  for (std::int64_t g = 0; g < groups; ++g) {
    for (std::int64_t t = 0; t < kLine; ++t) to[g * kLine + t] = by_token[t * groups + g];
  }
  return to;
}

ValueTile value_tile(const TileLayout& l, const std::byte* tile, float*& scratch) {
  ValueTile v{};
  v.kernels = &line_kernels(l.format);
  v.chunk_bytes = line_bytes(l.format);
  v.chunks = (l.dim + kLine - 1) / kLine;
  const std::int64_t element = element_bytes(l.format);
  v.lines = {tile, element > 0 ? element * l.dim : v.chunks * v.chunk_bytes, tile + l.fifth_bits, tile, 0};
  const std::int64_t rest = l.dim % kLine;
  if (element > 0 && rest > 0) {
    float* tail = take(scratch, kLine * kLine);
    const Lines last = v.chunk(v.chunks - 1);
    for (std::int64_t t = 0; t < kLine; ++t) {
      alignas(16) std::byte line[kLine * sizeof(float)] = {};
      std::memcpy(line, last.codes + t * last.stride, static_cast<std::size_t>(rest * element));
      v.kernels->floats(lines_at_hand(line, 0), 1, tail + t * kLine);
    }
    v.tail = tail;
  }
  if (l.groups > 0) {
    v.group_chunks = l.group_dims / kLine;
    v.scale = scales_by_group(l, tile + l.scales, scratch);
    if (l.zeros > 0) v.zero = scales_by_group(l, tile + l.zeros, scratch);
  }
  return v;
}

QUIRE_INLINE Made* take_made(float*& scratch, std::int64_t lines) {
  return reinterpret_cast<Made*>(take(scratch, lines * kLine));
}
QUIRE_INLINE Lines made_lines(const Made* x) {
  return lines_at_hand(x, kLine * static_cast<std::int64_t>(sizeof(Made)));
}

// The same tile, made into lines that are read quickly.
void make_values(ValueTile& v, float*& scratch) {
  const std::int64_t chunks = v.tail != nullptr ? v.chunks - 1 : v.chunks;
  Made* made = take_made(scratch, chunks * kLine);
  for (std::int64_t c = 0; c < chunks; ++c) v.kernels->make(v.chunk(c), kLine, made + c * kLine * kLine);
  v.kernels = &kLineKernels<MadeLine>;
  v.lines = made_lines(made);
  v.chunk_bytes = kLine * v.lines.stride;
}
void make_keys(KeyTile& k, float*& scratch) {
  Made* made = take_made(scratch, k.dim);
  k.kernels->make(k.lines, k.dim, made);
  k.kernels = &kLineKernels<MadeLine>;
  k.lines = made_lines(made);
}

// Its codes as the values they stand for: chunks of [32, 32].
float* plain_values(const TileLayout& l, const std::byte* tile, float*& scratch) {
  const ValueTile v = value_tile(l, tile, scratch);
  float* chunks = take(scratch, v.chunks * kLine * kLine);
  for (std::int64_t c = 0; c < v.chunks; ++c) {
    const bool tail = v.tail != nullptr && c + 1 == v.chunks;
    (tail ? kLineKernels<F32Line> : *v.kernels)
        .floats(tail ? float_lines(v.tail) : v.chunk(c), kLine, chunks + c * kLine * kLine);
  }
  for (std::int64_t c = 0; v.scale != nullptr && c < v.chunks; ++c) {
    for (std::int64_t t = 0; t < kLine; ++t) {
      const std::int64_t at = c / v.group_chunks * kLine + t;
      const F8 scale = broadcast(v.scale[at]), zero = broadcast(v.zero != nullptr ? v.zero[at] : 0.f);
      float* line = chunks + (c * kLine + t) * kLine;
      for (std::int64_t d = 0; d < kLine; d += 8) store8(line + d, fma(load8(line + d), scale, zero));
    }
  }
  return chunks;
}

// Rows of tokens become lines of dimensions: chunks of [32, 32] into [dim, 32].
void transpose_chunks(const float* chunks, std::int64_t dim, float* lines) {
  for (std::int64_t d = 0; d < dim; d += 8) {
    const float* chunk = chunks + d / kLine * kLine * kLine + d % kLine;
    for (std::int64_t t = 0; t < kLine; t += 8) {
      F8 block[8];
      for (std::int64_t i = 0; i < 8; ++i) block[i] = load8(chunk + (t + i) * kLine);
      transpose8(block);
      const std::int64_t width = dim - d < 8 ? dim - d : 8;
      for (std::int64_t j = 0; j < width; ++j) store8(lines + (d + j) * kLine + t, block[j]);
    }
  }
}

KeyTile key_tile_of_lines(const float* lines, std::int64_t dim) {
  return {&kLineKernels<F32Line>, float_lines(lines), dim, dim, nullptr, nullptr, nullptr, false};
}

KeyTile key_tile(const TileLayout& l, const std::byte* tile, float*& scratch) {
  if (l.order == KvOrder::rows) {
    float* lines = take(scratch, l.dim * kLine);
    transpose_chunks(plain_values(l, tile, scratch), l.dim, lines);
    return key_tile_of_lines(lines, l.dim);
  }
  KeyTile k{};
  k.kernels = &line_kernels(l.format);
  k.lines = {tile, line_bytes(l.format), tile + l.fifth_bits, tile, 0};
  k.dim = l.dim;
  k.group_dims = l.dim;
  if (l.zeros > 0) {
    k.channel_scale = floats_of_scales(l, tile + l.scales, l.dim, scratch);
    k.channel_zero = floats_of_scales(l, tile + l.zeros, l.dim, scratch);
  } else if (l.groups > 0) {
    k.group_dims = l.group_dims;
    k.scale = floats_of_scales(l, tile + l.scales, l.groups * kLine, scratch);
  }
  return k;
}

// Latent attention: the key is the value, followed by what the keys hold.
void latent_tiles(const Stretch& s, const PageTiles& tiles, float*& key_scratch, float*& value_scratch, KeyTile& k,
                  ValueTile& v) {
  const PageTileLayouts& layout = tiles.packed ? s.packed : s.wide;
  const std::int64_t latent = layout.values.dim, rope = layout.keys.dim;
  float* lines = take(key_scratch, (latent + rope) * kLine);
  const float* chunks = plain_values(layout.values, tiles.values, value_scratch);
  transpose_chunks(chunks, latent, lines);
  v = {};
  v.kernels = &kLineKernels<F32Line>;
  v.lines = float_lines(chunks);
  v.chunk_bytes = kLine * v.lines.stride;
  v.chunks = (latent + kLine - 1) / kLine;

  k = key_tile(layout.keys, tiles.keys, key_scratch);
  float* rope_lines = lines + latent * kLine;
  k.kernels->floats(k.lines, rope, rope_lines);
  for (std::int64_t d = 0; d < rope; ++d) {
    for (std::int64_t t = 0; t < kLine; t += 8) {
      F8 x = load8(rope_lines + d * kLine + t);
      if (k.scale != nullptr) x = x * load8(k.scale + d / k.group_dims * kLine + t);
      if (k.channel_scale != nullptr) x = fma(x, broadcast(k.channel_scale[d]), broadcast(k.channel_zero[d]));
      store8(rope_lines + d * kLine + t, x);
    }
  }
  k = key_tile_of_lines(lines, latent + rope);
}

// What to fetch while a tile is read.
struct Ahead {
  const std::byte* tile;  // or null
  std::int64_t bytes;

  QUIRE_INLINE void while_reading(Lines& lines, std::int64_t count) const {
    if (tile == nullptr) return;
    lines.ahead = tile;
    lines.ahead_stride = bytes / count;
  }
};

QUIRE_INLINE KeyTile ready_keys(const Stretch& s, const PageTiles& tiles, const Ahead& ahead, float*& scratch) {
  KeyTile k = key_tile((tiles.packed ? s.packed : s.wide).keys, tiles.keys, scratch);
  ahead.while_reading(k.lines, k.dim);
  k.even = tiles.packed && s.query_codes.pairs != nullptr;
  if (k.even) return k;
  if (s.queries > k.kernels->few_queries) make_keys(k, scratch);
  return k;
}
QUIRE_INLINE ValueTile ready_values(const Stretch& s, const PageTiles& tiles, const Ahead& ahead, float*& scratch) {
  ValueTile v = value_tile((tiles.packed ? s.packed : s.wide).values, tiles.values, scratch);
  ahead.while_reading(v.lines, v.chunks * kLine);
  if (s.queries > v.kernels->few_queries) make_values(v, scratch);
  return v;
}

}  // namespace
}  // namespace quire
