// Filling pages: tokens are written into wide pages, and full pages encoded into packed ones.
#include <algorithm>
#include <vector>

#include "core/check.h"
#include "kernels/cpu/cache_ops.h"
#include "kernels/cpu/scratch.h"
#include "kv/format/layouts.h"
#include "kv/hadamard.h"

namespace quire {
namespace {

// Rows of a batch that go into one page.
struct PageRows {
  const KvRows* sequence;
  std::int64_t row;
  std::int64_t rows;
  std::int64_t position;
};

std::vector<PageRows> cut_at_pages(std::span<const KvRows> sequences) {
  std::vector<PageRows> pieces;
  for (const KvRows& s : sequences) {
    for (std::int64_t r = 0; r < s.rows;) {
      const std::int64_t position = s.first_position + r;
      const std::int64_t rows = std::min(kPageTokens - position % kPageTokens, s.rows - r);
      pieces.push_back({&s, s.first_row + r, rows, position});
      r += rows;
    }
  }
  return pieces;
}

void encode_tile(const KvStreamLayout& from, const std::byte* wide, const KvStreamLayout& to, std::byte* packed) {
  thread_local Scratch scratch;
  float* rows = scratch.get<float>(kPageTokens * from.dim);
  info(from.format).decode(from.order, wide, from.dim, rows);
  info(to.format).encode(to.order, rows, to.dim, packed);
}

}  // namespace

TileLayout tile_layout(const KvStreamLayout& stream) {
  const KvTileParts parts = kv_tile_parts(stream.format, stream.order, stream.dim);
  const bool plain = info(stream.format).by_token;
  return {stream.format,
          stream.order,
          stream.dim,
          plain ? 0 : kv_groups(stream.format, stream.dim),
          kv_group_dims(stream.format),
          parts.fifth_bits,
          parts.scales,
          kv_has_zeros(stream.format) ? parts.zeros : 0,
          parts.bytes};
}

PageTileLayouts tile_layouts(const KvPageLayout& page) {
  return {tile_layout(page.keys), tile_layout(page.values), page.latent};
}

void cpu_append(const IsaKernels& isa, const AppendParams& p, ThreadPool& pool) {
  const KvGroupLayout& group = *p.kv.group;
  const KvStreamLayout& keys = group.wide.keys;
  const KvStreamLayout& values = group.wide.values;
  const TileLayout key_layout = tile_layout(keys), value_layout = tile_layout(values);
  const std::int64_t key_row = group.kv_heads * keys.dim, value_row = group.kv_heads * values.dim;
  const auto pieces = cut_at_pages(p.kv.sequences);
  // A decode step has one small piece: not worth a second thread.
  const std::int64_t heads_together = pieces.size() == 1 && pieces[0].rows > 1 ? 1 : group.kv_heads;
  const std::int64_t items_per_piece = group.kv_heads / heads_together;
  pool.for_each(static_cast<std::int64_t>(pieces.size()) * items_per_piece, [&](std::int64_t i) {
    const PageRows& piece = pieces[static_cast<std::size_t>(i / items_per_piece)];
    std::byte* page = piece.sequence->table.pages[piece.position / kPageTokens].wide;
    QUIRE_ASSERT(page != nullptr, "a page to write to");
    const std::int64_t token = piece.position % kPageTokens, first_head = i % items_per_piece * heads_together;
    for (std::int64_t h = first_head; h < first_head + heads_together; ++h) {
      isa.store_tokens(key_layout, p.keys + piece.row * key_row + h * keys.dim, key_row, token, piece.rows,
                       keys.tile(page, p.kv.layer, h));
      isa.store_tokens(value_layout, p.values + piece.row * value_row + h * values.dim, value_row, token, piece.rows,
                       values.tile(page, p.kv.layer, h));
    }
  });
}

void cpu_encode(const EncodeParams& p, ThreadPool& pool) {
  const KvGroupLayout& group = *p.kv.group;
  if (group.lossless) return;
  std::vector<KvTableEntry> pages;
  for (const KvRows& s : p.kv.sequences) {
    const std::int64_t first = std::max(s.first_position / kPageTokens, group.sink_pages);
    const std::int64_t end = (s.first_position + s.rows) / kPageTokens;
    for (std::int64_t i = first; i < end; ++i) {
      QUIRE_ASSERT(s.table.pages[i].packed != nullptr, "a page to encode into");
      pages.push_back(s.table.pages[i]);
    }
  }
  const std::int64_t tiles = 2 * group.kv_heads;
  pool.for_each(static_cast<std::int64_t>(pages.size()) * tiles, [&](std::int64_t i) {
    const KvTableEntry& page = pages[static_cast<std::size_t>(i / tiles)];
    const std::int64_t head = i % tiles / 2;
    const KvStreamLayout& from = i % 2 == 0 ? group.wide.keys : group.wide.values;
    const KvStreamLayout& to = i % 2 == 0 ? group.packed.keys : group.packed.values;
    encode_tile(from, from.tile(page.wide, p.kv.layer, head), to, to.tile(page.packed, p.kv.layer, head));
  });
}

void cpu_hadamard(const IsaKernels& isa, const HadamardParams& p, ThreadPool& pool) {
  const bool vectors = hadamard_block(p.dim) >= 8;
  const std::int64_t per_item = std::max<std::int64_t>(1, 4096 / p.dim);
  pool.for_each((p.rows + per_item - 1) / per_item, [&](std::int64_t item) {
    for (std::int64_t r = item * per_item; r < std::min(p.rows, (item + 1) * per_item); ++r) {
      if (vectors) {
        isa.hadamard_row(p.x + r * p.dim, p.dim);
      } else {
        hadamard(p.x + r * p.dim, p.dim);
      }
    }
  });
}

}  // namespace quire
