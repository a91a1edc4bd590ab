// Reading and writing a cache without kernels: for people who look inside, for tests, and for
// engines that bring their own arithmetic. Slow and plain, through the formats' scalar codecs.
#include <algorithm>

#include "cache/kv_cache.h"
#include "core/check.h"
#include "core/fail.h"
#include "core/planted.h"
#include "kv/hadamard.h"

namespace quire {
namespace {

std::vector<float> stored_form(KvFormat format, const float* values, std::int64_t dim) {
  std::vector<float> row(values, values + dim);
  if (info(format).rotated) hadamard(row.data(), dim);
  return row;
}

void encode_tile(const KvStreamLayout& wide, const KvStreamLayout& packed, std::int64_t layer, std::int64_t head,
                 const KvTableEntry& page) {
  std::vector<float> rows(static_cast<std::size_t>(kPageTokens * wide.dim));
  info(wide.format).decode(wide.order, wide.tile(page.wide, layer, head), wide.dim, rows.data());
  info(packed.format).encode(packed.order, rows.data(), packed.dim, packed.tile(page.packed, layer, head));
}

}  // namespace

Result<void> KvCache::append(SequenceId id, std::int64_t model_layer, std::span<const float> keys,
                             std::span<const float> values, std::int64_t count) {
  Sequence& sequence = at(id);
  if (model_layer < 0 || model_layer >= std::ssize(layer_map_)) {
    return fail(Errc::invalid_argument, "[append] layer {}; the cache has {}", model_layer, layer_map_.size());
  }
  const KvLayerRef place = layer_map_[static_cast<std::size_t>(model_layer)];
  const KvGroupLayout& layout = layouts_[static_cast<std::size_t>(place.group)];
  const std::int64_t key_dim = layout.wide.keys.dim, value_dim = layout.wide.values.dim;
  if (std::ssize(keys) != count * layout.kv_heads * key_dim ||
      std::ssize(values) != count * layout.kv_heads * value_dim) {
    return fail(Errc::invalid_argument,
                "[append] {} key and {} value numbers; expected {} tokens x {} heads x {} and {}", keys.size(),
                values.size(), count, layout.kv_heads, key_dim, value_dim);
  }
  if (!sequence.appending || sequence.prepared != count) {
    const StepWant want{id, count};
    QUIRE_TRY(const StepPlan plan, prepare({&want, 1}));
    for (const StepPlan::Copy& copy : plan.copies) {
      copy_tokens(layouts_[static_cast<std::size_t>(copy.group)], copy.page.from, copy.page.to, copy.page.tokens);
    }
    sequence.appending = true;
  }
  const auto write = [&](const KvStreamLayout& stream, KvFormat sealed, const float* rows) {
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t position = sequence.length() + t;
      const PageTable& table = sequence.tables[static_cast<std::size_t>(place.group)];
      std::byte* page = table.slots()[static_cast<std::size_t>(position / kPageTokens)].wide.data();
      for (std::int64_t head = 0; head < layout.kv_heads; ++head) {
        const auto row = stored_form(sealed, rows + (t * layout.kv_heads + head) * stream.dim, stream.dim);
        const std::int64_t slot = (position + planted(Bug::written_one_off)) % kPageTokens;
        std::byte* tile = stream.tile(page, planted(Bug::layers_mixed) ? 0 : place.layer, head);
        write_token(stream.format, stream.order, tile, slot, row.data(), stream.dim);
      }
    }
  };
  write(layout.wide.keys, layout.packed.keys.format, keys.data());
  write(layout.wide.values, layout.packed.values.format, values.data());
  return {};
}

void KvCache::advance(SequenceId id, std::span<const TokenId> tokens) {
  Sequence& sequence = at(id);
  const std::int64_t end = sequence.length() + std::ssize(tokens);
  for (const PageTable& table : sequence.tables) {
    const KvGroupLayout& layout = table.layout();
    for (std::int64_t page = sequence.length() / kPageTokens; page < end / kPageTokens; ++page) {
      if (!layout.packs(page)) continue;
      const PageSlot& slot = table.slots()[static_cast<std::size_t>(page)];
      const KvTableEntry entry{slot.wide.data(), slot.packed.data()};
      for (std::int64_t layer = 0; layer < layout.layers; ++layer) {
        for (std::int64_t head = 0; head < layout.kv_heads; ++head) {
          encode_tile(layout.wide.keys, layout.packed.keys, layer, head, entry);
          encode_tile(layout.wide.values, layout.packed.values, layer, head, entry);
        }
      }
    }
  }
  commit(id, tokens);
}

Result<KvTokens> KvCache::read(SequenceId id, std::int64_t model_layer, std::int64_t start, std::int64_t length) const {
  const Sequence& sequence = at(id);
  if (model_layer < 0 || model_layer >= std::ssize(layer_map_)) {
    return fail(Errc::invalid_argument, "[read] layer {}; the cache has {}", model_layer, layer_map_.size());
  }
  if (start < 0 || length < 0 || start > sequence.length() - length) {
    return fail(Errc::invalid_argument, "[read] {} tokens from {}; the sequence has {}", length, start,
                sequence.length());
  }
  const KvLayerRef place = layer_map_[static_cast<std::size_t>(model_layer)];
  const PageTable& table = sequence.tables[static_cast<std::size_t>(place.group)];
  const KvGroupLayout& layout = table.layout();
  KvTokens out;
  std::vector<float> tile;
  const auto copy = [&](const PageSlot& slot, bool keys, std::int64_t from, std::int64_t to, std::vector<float>& rows) {
    const KvPageLayout& page = slot.packed ? layout.packed : layout.wide;
    const KvStreamLayout& stream = keys ? page.keys : page.values;
    const std::byte* data = slot.packed ? slot.packed.data() : slot.wide.data();
    tile.resize(static_cast<std::size_t>(layout.kv_heads * kPageTokens * stream.dim));
    for (std::int64_t head = 0; head < layout.kv_heads; ++head) {
      info(stream.format)
          .decode(stream.order, stream.tile(data, place.layer, head), stream.dim,
                  tile.data() + head * kPageTokens * stream.dim);
    }
    const KvFormat sealed = keys ? layout.packed.keys.format : layout.packed.values.format;
    for (std::int64_t t = from; t < to; ++t) {
      for (std::int64_t head = 0; head < layout.kv_heads; ++head) {
        const auto row = stored_form(sealed, tile.data() + (head * kPageTokens + t) * stream.dim, stream.dim);
        rows.insert(rows.end(), row.begin(), row.end());
      }
    }
  };
  for (std::int64_t position = start; position < start + length;) {
    const std::int64_t page = position / kPageTokens, from = position % kPageTokens;
    const std::int64_t to = std::min(kPageTokens, from + start + length - position);
    const PageSlot& slot = table.slots()[static_cast<std::size_t>(page)];
    if (position < table.first_position() || (!slot.wide && !slot.packed)) {
      return fail(Errc::invalid_argument, "[read] position {} has left the cache", position);
    }
    copy(slot, true, from, to, out.keys);
    copy(slot, false, from, to, out.values);
    position += to - from;
  }
  return out;
}

}  // namespace quire
