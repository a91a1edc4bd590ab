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

struct QueryScratch {
  Scratch q, bytes, codes, pairs, scales, sums, seen;
};
thread_local std::array<QueryScratch, 3> query_scratch;  // of each part
thread_local Scratch stretch_scratch;

QueryCodes from_query(const QueryCodes& all, std::int64_t query, std::int64_t stride) {
  if (all.codes == nullptr) return {};
  const std::int64_t at = query * stride;
  return {all.codes + at, all.pairs + at / 2, all.scale + at / kQueryGroup, all.sum + at / kQueryGroup};
}

QueryScratch& scratch_of(Part part) { return query_scratch[static_cast<std::size_t>(part)]; }

}  // namespace

CacheReader::CacheReader(const IsaKernels& isa, const KvTarget& kv, std::int64_t q_heads, float scale, float softcap,
                         const ShortQueries* short_queries)
    : isa_(isa),
      kv_(kv),
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
      short_queries_(short_queries != nullptr && short_queries->meet(wide_) && short_queries->meet(packed_)
                         ? short_queries
                         : nullptr),
      rounds_queries_(short_queries_ == nullptr &&
                      meets_query_codes(packed_.keys.format, packed_.keys.order, packed_.latent)) {
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

void CacheReader::tiles(const Piece& piece, Part part, std::int64_t begin, std::int64_t kv_head,
                        std::span<PageTiles> to) const {
  std::ranges::fill(to, PageTiles{});
  const std::int64_t end = begin + std::ssize(to) * kPageTokens;
  const std::int64_t first = std::max(seen(piece, piece.position, part).first, begin);
  const std::int64_t last = std::min(seen(piece, piece.end() - 1, part).last, end);
  if (first >= last) return;
  for (std::int64_t i = first / kPageTokens; i <= (last - 1) / kPageTokens; ++i) {
    const bool kept = part == Part::kept;
    const bool wide = kept ? group_.lossless : group_.reads_wide(i, piece.page());
    const KvPageLayout& layout = wide ? group_.wide : group_.packed;
    const std::byte* at = kept ? piece.table->kept[i] : page(piece, i);
    QUIRE_ASSERT(at != nullptr, "a page that a query sees");
    to[static_cast<std::size_t>(i - begin / kPageTokens)] = {layout.keys.tile(at, kv_.layer, kv_head),
                                                             layout.values.tile(at, kv_.layer, kv_head), !wide};
  }
}

QueryCodes CacheReader::rounded(const float* scaled, std::int64_t queries, Part part) const {
  static_assert(kQueryGroup == kLine, "strides are whole groups");
  QueryScratch& scratch = scratch_of(part);
  const std::int64_t groups = queries * query_stride_ / kQueryGroup;
  auto* codes = scratch.codes.get<std::int8_t>(groups * kQueryGroup);
  auto* pairs = scratch.pairs.get<std::int32_t>(groups * kQueryGroup / 2);
  float* scale = scratch.scales.get<float>(groups);
  auto* sum = scratch.sums.get<std::int32_t>(groups);
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

CacheReader::Queries CacheReader::queries(std::span<const Piece> pieces, Part part, std::int64_t kv_head,
                                          const float* q) const {
  std::int64_t count = 0;
  for (const Piece& piece : pieces) count += piece.rows * heads_;
  QueryScratch& scratch = scratch_of(part);
  float* scaled = scratch.q.get<float>(count * query_stride_);
  auto* first = scratch.seen.get<std::int64_t>(2 * count);
  std::int64_t* last = first + count;
  std::int64_t i = 0;
  for (const Piece& piece : pieces) {
    for (std::int64_t r = 0; r < piece.rows; ++r) {
      const Range range = seen(piece, piece.position + r, part);
      const float* from = q + ((piece.row + r) * q_heads_ + kv_head * heads_) * query_dim_;
      for (std::int64_t h = 0; h < heads_; ++h, ++i, from += query_dim_) {
        float* to = scaled + i * query_stride_;
        isa_.scale_row(from, scale_, query_dim_, to);
        std::fill(to + query_dim_, to + query_stride_, 0.f);
        first[i] = range.first;
        last[i] = range.last;
      }
    }
  }
  std::uint32_t* bytes = nullptr;
  if (short_queries_ != nullptr) {
    bytes = scratch.bytes.get<std::uint32_t>(count * short_query_words(query_stride_));
    short_queries_->round(scaled, count, query_stride_, bytes);
  }
  return {scaled, bytes, rounds_queries_ ? rounded(scaled, count, part) : QueryCodes{}, first, last};
}

Stretch CacheReader::stretch(const Queries& all, std::int64_t query, std::int64_t count, std::int64_t begin,
                             std::span<const PageTiles> tiles, const PageTiles* ahead) const {
  const bool nothing = std::ranges::all_of(tiles, [](const PageTiles& t) { return t.values == nullptr; });
  if (nothing) return {};
  Stretch s{};
  s.wide = wide_;
  s.packed = packed_;
  s.tiles = tiles.data();
  s.ahead = ahead;
  s.pages = std::ssize(tiles);
  s.begin = begin;
  s.q = all.q + query * query_stride_;
  if (all.bytes != nullptr) s.query_bytes = all.bytes + query * short_query_words(query_stride_);
  s.query_codes = from_query(all.codes, query, query_stride_);
  s.first = all.first + query;
  s.last = all.last + query;
  s.queries = count;
  s.query_stride = query_stride_;
  s.value_stride = value_stride_;
  s.softcap = softcap_;
  s.scratch = stretch_scratch.get<float>(stretch_scratch_floats(count, query_stride_, value_stride_));
  return s;
}

}  // namespace quire
