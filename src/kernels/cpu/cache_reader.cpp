#include "kernels/cpu/cache_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "core/check.h"
#include "kernels/cpu/scratch.h"
#include "kv/query_codes.h"

namespace quire {
namespace {

struct ReaderScratch {
  Scratch q, query_codes, query_pairs, query_scales, query_sums, seen, stretch;
};
thread_local ReaderScratch reader_scratch;

}  // namespace

CacheReader::CacheReader(const KvTarget& kv, std::int64_t q_heads, float scale, float softcap,
                         bool (*rounds_itself)(const PageTileLayouts& wide, const PageTileLayouts& packed))
    : kv_(kv),
      group_(*kv.group),
      q_heads_(q_heads),
      heads_(q_heads / group_.kv_heads),
      query_dim_(group_.wide.query_dim()),
      query_stride_(padded_to_line(query_dim_)),
      value_stride_(padded_to_line(group_.wide.values.dim)),
      scale_(scale),
      softcap_(softcap),
      wide_(tile_layouts(group_.wide)),
      packed_(group_.lossless ? wide_ : tile_layouts(group_.packed)),
      rounds_queries_(meets_query_codes(packed_.keys.format, packed_.keys.order, packed_.latent) &&
                      (rounds_itself == nullptr || !rounds_itself(wide_, packed_))) {
  QUIRE_ASSERT(wide_.values.order == KvOrder::rows && packed_.values.order == KvOrder::rows, "values lie in rows");
}

std::vector<Piece> CacheReader::pieces(std::int64_t most_rows) const {
  std::vector<Piece> pieces;
  for (const KvRows& s : kv_.sequences) {
    for (std::int64_t r = 0; r < s.rows;) {
      const std::int64_t position = s.first_position + r;
      const std::int64_t rows = std::min({kPageTokens - position % kPageTokens, s.rows - r, most_rows});
      pieces.push_back({&s.table, s.first_row + r, rows, position});
      r += rows;
    }
  }
  return pieces;
}

std::int64_t CacheReader::first_seen(const Piece& piece) const {
  return std::max(piece.table->visible.first(piece.position), piece.table->first_position);
}

const std::byte* CacheReader::page(const Piece& piece, std::int64_t i) const {
  const KvTableEntry& entry = piece.table->pages[i];
  return group_.reads_wide(i, piece.page()) ? entry.wide : entry.packed;
}

CacheReader::Range CacheReader::seen(const Piece& piece, std::int64_t position, Part part) const {
  const KvTable& table = *piece.table;
  if (part == Part::kept) return {0, table.kept_tokens};
  if (part == Part::sinks) return {table.first_position, table.visible.sinks_at(position)};
  return {std::max(table.visible.first(position), table.first_position), position + 1};
}

CacheReader::Tiles CacheReader::tiles(const Piece& piece, Part part, std::int64_t segment, std::int64_t kv_head) const {
  Tiles tiles{};
  const std::int64_t begin = segment * kSegmentTokens;
  const std::int64_t first = std::max(seen(piece, piece.position, part).first, begin);
  const std::int64_t last = std::min(seen(piece, piece.end() - 1, part).last, begin + kSegmentTokens);
  if (first >= last) return tiles;
  for (std::int64_t i = first / kPageTokens; i <= (last - 1) / kPageTokens; ++i) {
    const bool kept = part == Part::kept;
    const bool wide = kept ? group_.lossless : group_.reads_wide(i, piece.page());
    const KvPageLayout& layout = wide ? group_.wide : group_.packed;
    const std::byte* at = kept ? piece.table->kept[i] : page(piece, i);
    QUIRE_ASSERT(at != nullptr, "a page that a query sees");
    tiles[static_cast<std::size_t>(i % kSegmentPages)] = {layout.keys.tile(at, kv_.layer, kv_head),
                                                          layout.values.tile(at, kv_.layer, kv_head), !wide};
  }
  return tiles;
}

QueryCodes CacheReader::rounded(const float* scaled, std::int64_t queries) const {
  static_assert(kQueryGroup == kLine, "strides are whole groups");
  const std::int64_t groups = queries * query_stride_ / kQueryGroup;
  auto* codes = reader_scratch.query_codes.get<std::int8_t>(groups * kQueryGroup);
  auto* pairs = reader_scratch.query_pairs.get<std::int32_t>(groups * kQueryGroup / 2);
  float* scale = reader_scratch.query_scales.get<float>(groups);
  auto* sum = reader_scratch.query_sums.get<std::int32_t>(groups);
  for (std::int64_t g = 0; g < groups; ++g) {
    std::int8_t* group = codes + g * kQueryGroup;
    scale[g] = kHalfStep4 * round_query(scaled + g * kQueryGroup, kQueryGroup, group);
    sum[g] = std::accumulate(group, group + kQueryGroup, std::int32_t{0});
  }
  for (std::int64_t i = 0; i < groups * kQueryGroup / 2; ++i) {
    const std::array<std::int8_t, 4> twice{codes[2 * i], codes[2 * i + 1], codes[2 * i], codes[2 * i + 1]};
    std::memcpy(pairs + i, twice.data(), sizeof twice);
  }
  return {codes, pairs, scale, sum};
}

Stretch CacheReader::stretch(std::span<const Piece> pieces, Part part, std::int64_t segment, const Tiles& tiles,
                             std::int64_t kv_head, const float* q, const Tiles* ahead) const {
  const bool nothing = std::ranges::all_of(tiles, [](const PageTiles& t) { return t.values == nullptr; });
  if (nothing) return {};
  std::int64_t queries = 0;
  for (const Piece& piece : pieces) queries += piece.rows * heads_;
  ReaderScratch& scratch = reader_scratch;
  float* scaled = scratch.q.get<float>(queries * query_stride_);
  auto* first = scratch.seen.get<std::int64_t>(2 * queries);
  std::int64_t* last = first + queries;
  std::int64_t i = 0;
  for (const Piece& piece : pieces) {
    for (std::int64_t r = 0; r < piece.rows; ++r) {
      const Range range = seen(piece, piece.position + r, part);
      const float* from = q + ((piece.row + r) * q_heads_ + kv_head * heads_) * query_dim_;
      for (std::int64_t h = 0; h < heads_; ++h, ++i, from += query_dim_) {
        float* to = scaled + i * query_stride_;
        for (std::int64_t d = 0; d < query_dim_; ++d) to[d] = from[d] * scale_;
        std::fill(to + query_dim_, to + query_stride_, 0.f);
        first[i] = range.first;
        last[i] = range.last;
      }
    }
  }
  const bool meets_codes = rounds_queries_ && std::ranges::any_of(tiles, &PageTiles::packed);
  const QueryCodes codes = meets_codes ? rounded(scaled, queries) : QueryCodes{};
  float* memory = scratch.stretch.get<float>(stretch_scratch_floats(queries, query_stride_, value_stride_));
  return {wide_,         packed_,
          tiles.data(),  ahead == nullptr ? nullptr : ahead->data(),
          kSegmentPages, segment * kSegmentTokens,
          scaled,        codes,
          first,         last,
          queries,       query_stride_,
          value_stride_, softcap_,
          memory};
}

}  // namespace quire
