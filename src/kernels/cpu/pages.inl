// Writing tokens into pages, and the rotation that comes before.

namespace quire {
namespace {

struct StoreF32 {
  using Stored = float;
  static QUIRE_INLINE void store(Stored* to, F8 x) { store8(to, x); }
};
struct StoreF16 {
  using Stored = std::uint16_t;
  static QUIRE_INLINE void store(Stored* to, F8 x) { store8_f16(to, x); }
};
struct StoreBf16 {
  using Stored = std::uint16_t;
  static QUIRE_INLINE void store(Stored* to, F8 x) { store8_bf16(to, x); }
};

template <class Store>
QUIRE_INLINE void store_row(const float* x, std::int64_t dim, typename Store::Stored* to) {
  for (std::int64_t d = 0; d < dim; d += 8) {
    if (dim - d >= 8) {
      Store::store(to + d, load8(x + d));
      continue;
    }
    typename Store::Stored part[8];
    Store::store(part, load_part(x + d, dim - d));
    std::memcpy(to + d, part, static_cast<std::size_t>(dim - d) * sizeof part[0]);
  }
}

// Tokens [token, token + 8) of one lane each; all of them, or `count` one by one.
template <class Store>
QUIRE_INLINE void store_lanes(const float* x, std::int64_t x_stride, std::int64_t dim, std::int64_t count,
                              typename Store::Stored* to) {
  for (std::int64_t d = 0; d < dim; d += 8) {
    const std::int64_t width = dim - d < 8 ? dim - d : 8;
    if (count == 8) {
      F8 block[8];
      for (std::int64_t i = 0; i < 8; ++i) {
        block[i] = width == 8 ? load8(x + i * x_stride + d) : load_part(x + i * x_stride + d, width);
      }
      transpose8(block);
      for (std::int64_t j = 0; j < width; ++j) Store::store(to + (d + j) * kPageTokens, block[j]);
      continue;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      typename Store::Stored column[8];
      Store::store(column, load_part(x + i * x_stride + d, width));
      for (std::int64_t j = 0; j < width; ++j) to[(d + j) * kPageTokens + i] = column[j];
    }
  }
}

template <class Store>
void store_tokens_as(const TileLayout& l, const float* x, std::int64_t x_stride, std::int64_t token, std::int64_t count,
                     std::byte* tile) {
  auto* to = reinterpret_cast<typename Store::Stored*>(tile);
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t left = count - i, together = l.order == KvOrder::lanes && left >= 8 ? 8 : 1;
    if (l.order == KvOrder::rows) {
      store_row<Store>(x + i * x_stride, l.dim, to + (token + i) * l.dim);
    } else {
      store_lanes<Store>(x + i * x_stride, x_stride, l.dim, together, to + token + i);
    }
    i += together;
  }
}

void store_tokens(const TileLayout& l, const float* x, std::int64_t x_stride, std::int64_t token, std::int64_t count,
                  std::byte* tile) {
  if (l.format == KvFormat::f32) return store_tokens_as<StoreF32>(l, x, x_stride, token, count, tile);
  if (l.format == KvFormat::f16) return store_tokens_as<StoreF16>(l, x, x_stride, token, count, tile);
  store_tokens_as<StoreBf16>(l, x, x_stride, token, count, tile);
}

// Butterflies within a vector: lane i and the one at `distance` become their sum and their difference.
template <int kDistance>
QUIRE_INLINE F8 butterfly(F8 x) {
  constexpr int k = kDistance;
  const F8 other = __builtin_shufflevector(x, x, 0 ^ k, 1 ^ k, 2 ^ k, 3 ^ k, 4 ^ k, 5 ^ k, 6 ^ k, 7 ^ k);
  const I8 lane{0, 1, 2, 3, 4, 5, 6, 7};
  return (lane & k) == 0 ? x + other : other - x;
}

// The blocks of kv/hadamard.h, of at least 8; the same sums in the same order.
void hadamard_row(float* x, std::int64_t dim) {
  const std::int64_t block = dim & -dim;
  const F8 scale = broadcast(1.f / __builtin_sqrtf(static_cast<float>(block)));
  for (float* at = x; at < x + dim; at += block) {
    for (std::int64_t i = 0; i < block; i += 8) {
      const F8 whole = butterfly<4>(butterfly<2>(butterfly<1>(load8(at + i))));
      store8(at + i, block == 8 ? whole * scale : whole);
    }
    for (std::int64_t h = 8; h < block; h *= 2) {
      const F8 last = 2 * h == block ? scale : broadcast(1);
      for (std::int64_t i = 0; i < block; i += 2 * h) {
        for (std::int64_t j = i; j < i + h; j += 8) {
          const F8 a = load8(at + j), b = load8(at + j + h);
          store8(at + j, (a + b) * last);
          store8(at + j + h, (a - b) * last);
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire
