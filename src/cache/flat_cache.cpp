#include "cache/flat_cache.h"

#include <algorithm>
#include <new>

#include "core/check.h"
#include "core/fail.h"

namespace quire {

Result<FlatCache> FlatCache::create(const KvGeometry& geometry, std::int64_t max_length) {
  if (geometry.layers < 1 || geometry.kv_heads < 1 || geometry.head_dim < 1 || max_length < 1) {
    return fail(Errc::invalid_argument,
                "[flat cache] {} layers, {} KV heads of {} and {} positions; each must be at least 1", geometry.layers,
                geometry.kv_heads, geometry.head_dim, max_length);
  }
  const auto bytes = geometry.bytes(static_cast<std::uint64_t>(max_length), sizeof(f16_t));
  if (!bytes || *bytes > static_cast<std::uint64_t>(PTRDIFF_MAX)) {
    return fail(Errc::invalid_argument, "[flat cache] {} positions are more than memory can address; lower --ctx-size",
                max_length);
  }
  try {
    return FlatCache(geometry, max_length);
  } catch (const std::bad_alloc&) {
    return fail(Errc::invalid_argument, "[flat cache] cannot allocate {} MiB for {} positions; lower --ctx-size",
                *bytes >> 20, max_length);
  }
}

FlatCache::FlatCache(const KvGeometry& geometry, std::int64_t max_length)
    : geometry_(geometry), max_length_(max_length) {
  const std::int64_t buffer = geometry.kv_heads * kv_stride();
  storage_.resize(static_cast<std::size_t>(2 * geometry.layers * buffer));
  f16_t* at = storage_.data();
  for (int layer = 0; layer < geometry.layers; ++layer, at += 2 * buffer) {
    layers_.push_back({at, at + buffer, kv_stride(), geometry.head_dim});
  }
}

Result<void> FlatCache::append(int layer, std::span<const f16_t> keys, std::span<const f16_t> values,
                               std::int64_t count) {
  QUIRE_ASSERT(layer >= 0 && layer < geometry_.layers && count >= 0, "append to a layer that does not exist");
  const auto expected = static_cast<std::size_t>(count * geometry_.row_values());
  QUIRE_ASSERT(keys.size() == expected && values.size() == expected, "keys and values of another shape");
  if (would_overflow(count)) {
    return fail(Errc::context_full, "[append] {} tokens do not fit: {} of {} positions are used; raise --ctx-size",
                count, current_length_, max_length_);
  }
  const KvLayerView& view = layers_[static_cast<std::size_t>(layer)];
  const std::int64_t dim = geometry_.head_dim;
  for (std::int64_t t = 0; t < count; ++t) {
    for (std::int64_t head = 0; head < geometry_.kv_heads; ++head) {
      const std::int64_t from = t * geometry_.row_values() + head * dim;
      const std::int64_t to = head * view.head_stride + (current_length_ + t) * view.token_stride;
      std::copy_n(keys.data() + from, dim, view.keys + to);
      std::copy_n(values.data() + from, dim, view.values + to);
    }
  }
  return {};
}

Result<void> FlatCache::advance(std::int64_t count) {
  QUIRE_ASSERT(count >= 0, "advance goes forward");
  if (would_overflow(count)) {
    return fail(Errc::context_full, "[advance] by {} from {} goes past the {} positions reserved; raise --ctx-size",
                count, current_length_, max_length_);
  }
  current_length_ += count;
  return {};
}

Result<void> FlatCache::rollback(std::int64_t length) {
  if (length < 0) return fail(Errc::invalid_argument, "[rollback] to {}; expected a length of at least 0", length);
  current_length_ = std::min(current_length_, length);
  return {};
}

}  // namespace quire
