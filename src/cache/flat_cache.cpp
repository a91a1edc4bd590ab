#include "cache/flat_cache.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/fail.h"

namespace quire {

Result<FlatCache> FlatCache::create(const KvGeometry& geometry, std::int64_t max_length, KvType key_type,
                                    KvType value_type) {
  if (geometry.layers < 1 || geometry.kv_heads < 1 || geometry.head_dim < 1 || max_length < 1) {
    return fail(Errc::invalid_argument,
                "[flat cache] {} layers, {} KV heads of {} and {} positions; each must be at least 1", geometry.layers,
                geometry.kv_heads, geometry.head_dim, max_length);
  }
  const auto key_bytes =
      geometry.bytes(static_cast<std::uint64_t>(max_length), static_cast<std::uint64_t>(bytes_per_value(key_type)));
  const auto value_bytes =
      geometry.bytes(static_cast<std::uint64_t>(max_length), static_cast<std::uint64_t>(bytes_per_value(value_type)));
  constexpr auto kLimit = static_cast<std::uint64_t>(PTRDIFF_MAX);
  if (!key_bytes || !value_bytes || *key_bytes > kLimit || *value_bytes > kLimit) {
    return fail(Errc::invalid_argument, "[flat cache] {} positions are more than memory can address; lower --ctx-size",
                max_length);
  }
  const std::uint64_t bytes = *key_bytes / 2 + *value_bytes / 2;  // each was counted for keys and values
  Storage storage(static_cast<std::byte*>(std::calloc(bytes, 1)));
  if (storage == nullptr) {
    return fail(Errc::invalid_argument, "[flat cache] cannot allocate {} MiB for {} positions; lower --ctx-size",
                bytes >> 20, max_length);
  }
  return FlatCache(geometry, max_length, key_type, value_type, std::move(storage), bytes);
}

FlatCache::FlatCache(const KvGeometry& geometry, std::int64_t max_length, KvType key_type, KvType value_type,
                     Storage storage, std::uint64_t bytes)
    : geometry_(geometry), max_length_(max_length), storage_(std::move(storage)), bytes_(bytes) {
  const std::int64_t values = geometry.kv_heads * kv_stride();
  const std::int64_t key_bytes = values * bytes_per_value(key_type), value_bytes = values * bytes_per_value(value_type);
  std::byte* at = storage_.get();
  for (int layer = 0; layer < geometry.layers; ++layer, at += key_bytes + value_bytes) {
    layers_.push_back(
        {{at, key_type, kv_stride(), geometry.head_dim}, {at + key_bytes, value_type, kv_stride(), geometry.head_dim}});
  }
}

Result<void> FlatCache::append(int layer, std::span<const std::byte> keys, std::span<const std::byte> values,
                               std::int64_t count) {
  QUIRE_ASSERT(layer >= 0 && layer < geometry_.layers && count >= 0, "append to a layer that does not exist");
  if (would_overflow(count)) {
    return fail(Errc::context_full, "[append] {} tokens do not fit: {} of {} positions are used; raise --ctx-size",
                count, current_length_, max_length_);
  }
  const KvLayerView& view = layers_[static_cast<std::size_t>(layer)];
  const auto write = [&](const KvStream& stream, std::span<const std::byte> rows) {
    const std::int64_t row = geometry_.head_dim * bytes_per_value(stream.type);
    QUIRE_ASSERT(std::ssize(rows) == count * geometry_.kv_heads * row, "keys or values of another shape");
    for (std::int64_t t = 0; t < count; ++t) {
      for (std::int64_t head = 0; head < geometry_.kv_heads; ++head) {
        std::copy_n(rows.data() + (t * geometry_.kv_heads + head) * row, row, stream.at(head, current_length_ + t));
      }
    }
  };
  write(view.keys, keys);
  write(view.values, values);
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
