#include "cache/flat_cache.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/fail.h"

namespace quire {

Result<FlatCache> FlatCache::create(const KvGeometry& geometry, std::int64_t max_length, KvFormat format) {
  if (geometry.layers < 1 || geometry.kv_heads < 1 || geometry.head_dim < 1 || max_length < 1) {
    return fail(Errc::invalid_argument,
                "[flat cache] {} layers, {} KV heads of {} and {} positions; each must be at least 1", geometry.layers,
                geometry.kv_heads, geometry.head_dim, max_length);
  }
  if (!info(format).by_token) {
    return fail(Errc::invalid_argument, "[flat cache] holds f32, f16 or bf16, not {}; use the paged cache for it",
                info(format).name);
  }
  const auto bytes = geometry.bytes(static_cast<std::uint64_t>(max_length), format == KvFormat::f32 ? 4 : 2);
  if (!bytes || *bytes > static_cast<std::uint64_t>(PTRDIFF_MAX)) {
    return fail(Errc::invalid_argument, "[flat cache] {} positions are more than memory can address; lower --ctx-size",
                max_length);
  }
  Storage storage(static_cast<std::byte*>(std::calloc(*bytes, 1)));
  if (storage == nullptr) {
    return fail(Errc::out_of_memory, "[flat cache] cannot allocate {} MiB for {} positions; lower --ctx-size",
                *bytes >> 20, max_length);
  }
  return FlatCache(geometry, max_length, format, std::move(storage), *bytes);
}

FlatCache::FlatCache(const KvGeometry& geometry, std::int64_t max_length, KvFormat format, Storage storage,
                     std::uint64_t bytes)
    : geometry_(geometry), max_length_(max_length), format_(format), storage_(std::move(storage)), bytes_(bytes) {
  const std::int64_t page = kPageTokens * geometry.head_dim * value_bytes();
  for (std::int64_t i = 0; i * kPageTokens < max_length; ++i) pages_.push_back({storage_.get() + i * page, nullptr});
}

// Page i of a head follows page i-1, so a tile of keys or values is 32 rows in place.
KvGroupLayout FlatCache::layout(const KvVisibility& visible) const {
  const std::int64_t head = kv_stride() * value_bytes(), stream = geometry_.kv_heads * head;
  KvGroupLayout layout{};
  layout.layers = geometry_.layers;
  layout.kv_heads = geometry_.kv_heads;
  layout.wide.keys = {format_, KvOrder::rows, geometry_.head_dim, 0, 2 * stream, head};
  layout.wide.values = {format_, KvOrder::rows, geometry_.head_dim, stream, 2 * stream, head};
  layout.packed = layout.wide;
  layout.lossless = true;
  layout.visible = visible;
  return layout;
}

Result<void> FlatCache::append(int layer, std::span<const float> keys, std::span<const float> values,
                               std::int64_t count) {
  QUIRE_ASSERT(layer >= 0 && layer < geometry_.layers && count >= 0, "append to a layer that does not exist");
  QUIRE_ASSERT(std::ssize(keys) == count * geometry_.row_values() && keys.size() == values.size(),
               "keys or values of another shape");
  if (would_overflow(count)) {
    return fail(Errc::context_full, "[append] {} tokens do not fit: {} of {} positions are used; raise --ctx-size",
                count, current_length_, max_length_);
  }
  const KvGroupLayout group = layout({});
  const auto write = [&](const KvStreamLayout& stream, std::span<const float> rows) {
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t position = current_length_ + t;
      std::byte* page = pages_[static_cast<std::size_t>(position / kPageTokens)].wide;
      for (std::int64_t head = 0; head < geometry_.kv_heads; ++head) {
        const float* row = rows.data() + (t * geometry_.kv_heads + head) * geometry_.head_dim;
        write_token(format_, KvOrder::rows, stream.tile(page, layer, head), position % kPageTokens, row,
                    geometry_.head_dim);
      }
    }
  };
  write(group.wide.keys, keys);
  write(group.wide.values, values);
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
