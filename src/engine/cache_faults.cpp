#include "engine/cache_faults.h"

#include "core/fail.h"

namespace quire {

Result<std::byte*> CacheFaults::key_tile(std::int64_t layer, std::int64_t head, std::int64_t position) const {
  if (!cache_.flat_) return fail(Errc::unsupported, "[fault] only a session with the flat cache can be damaged");
  const FlatCache& flat = *cache_.flat_;
  const KvGeometry& shape = flat.geometry();
  if (layer < 0 || layer >= shape.layers || head < 0 || head >= shape.kv_heads || position < 0 ||
      position >= cache_.length()) {
    return fail(Errc::invalid_argument, "[fault] layer {}, head {}, position {}; there are {}, {} and {}", layer, head,
                position, shape.layers, shape.kv_heads, cache_.length());
  }
  std::byte* page = flat.table({}).pages[position / kPageTokens].wide;
  return flat.layout({}).wide.keys.tile(page, layer, head);
}

Result<void> CacheFaults::overwrite_key(std::int64_t layer, std::int64_t head, std::int64_t position,
                                        std::span<const float> key) {
  QUIRE_TRY(std::byte* const tile, key_tile(layer, head, position));
  const KvStreamLayout keys = cache_.flat_->layout({}).wide.keys;
  if (std::ssize(key) != keys.dim) {
    return fail(Errc::invalid_argument, "[fault] a key of {} values; expected {}", key.size(), keys.dim);
  }
  write_token(keys.format, keys.order, tile, position % kPageTokens, key.data(), keys.dim);
  return {};
}

Result<std::vector<float>> CacheFaults::read_key(std::int64_t layer, std::int64_t head, std::int64_t position) const {
  QUIRE_TRY(const std::byte* const tile, key_tile(layer, head, position));
  const KvStreamLayout keys = cache_.flat_->layout({}).wide.keys;
  std::vector<float> key(static_cast<std::size_t>(keys.dim));
  read_token(keys.format, keys.order, tile, position % kPageTokens, keys.dim, key.data());
  return key;
}

Result<void> CacheFaults::shift_writes(std::int64_t slots) {
  if (!cache_.flat_) return fail(Errc::unsupported, "[fault] only a session with the flat cache can be damaged");
  if (slots < 0) return fail(Errc::invalid_argument, "[fault] a shift by {} slots; expected at least 0", slots);
  cache_.write_shift_ = slots;
  return {};
}

}  // namespace quire
