// What queries see of a cache, as stretches for the inner loops.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "kernels/cpu/cache_ops.h"

namespace quire {

// Segments start at fixed positions, whatever is computed: partial results and the order of their merging are then the
// same for prefill and decode, for any number of threads. The first are short, so that 2,048 tokens can be shared among
// four threads; later ones are long, since each takes a while to get going.
inline constexpr std::int64_t kShortSegments = 4, kShortSegmentPages = 16, kSegmentPages = 32;
static_assert(kShortSegmentPages % kSpanPages == 0 && kSegmentPages % kSpanPages == 0);
constexpr std::int64_t segment_begin(std::int64_t segment) {
  const std::int64_t later = segment - kShortSegments;
  return (later <= 0 ? segment * kShortSegmentPages : kShortSegments * kShortSegmentPages + later * kSegmentPages) *
         kPageTokens;
}
constexpr std::int64_t segment_of(std::int64_t position) {
  const std::int64_t later = position - segment_begin(kShortSegments);
  return later < 0 ? position / (kShortSegmentPages * kPageTokens)
                   : kShortSegments + later / (kSegmentPages * kPageTokens);
}

// Rows of one sequence in one page: they read the same version of every page.
struct Piece {
  const KvTable* table;
  std::int64_t row;
  std::int64_t rows;
  std::int64_t position;

  std::int64_t end() const { return position + rows; }
  std::int64_t page() const { return position / kPageTokens; }
};

// A query sees kept tokens first, in segments of their own; then sinks; then what is left of the
// positions up to its own. Sinks and positions have their segments in common.
enum class Part { kept, sinks, usual };

class CacheReader {
 public:
  // short_queries: of the kernel that will read, or null.
  CacheReader(const IsaKernels& isa, const KvTarget& kv, std::int64_t q_heads, float scale, float softcap,
              const ShortQueries* short_queries = nullptr);

  std::int64_t heads() const { return heads_; }  // query heads of a KV head
  std::int64_t value_stride() const { return value_stride_; }

  // The batch, cut at page borders, with at most `most_rows` rows in a piece.
  std::vector<Piece> pieces(std::int64_t most_rows) const;

  // First position a piece sees that is no sink.
  std::int64_t first_seen(const Piece& piece) const;
  const std::byte* page(const Piece& piece, std::int64_t i) const;

  // What a piece sees of the pages from position `begin` on, as many as there is room for.
  void tiles(const Piece& piece, Part part, std::int64_t begin, std::int64_t kv_head, std::span<PageTiles> to) const;

  // Queries of pieces, one after the other, scaled and rounded as keys meet them. What it points to is this thread's,
  // until the next call for the same part.
  struct Queries {
    const float* q;
    const std::uint32_t* bytes;
    QueryCodes codes;
    const std::int64_t* first;
    const std::int64_t* last;
  };
  Queries queries(std::span<const Piece> pieces, Part part, std::int64_t kv_head, const float* q) const;

  // `count` of the queries, from number `query` on, all of which have these tiles from position `begin` on. Pages is 0
  // where there are none to see. ahead: the pages this thread reads next, or null.
  Stretch stretch(const Queries& all, std::int64_t query, std::int64_t count, std::int64_t begin,
                  std::span<const PageTiles> tiles, const PageTiles* ahead = nullptr) const;

 private:
  struct Range {
    std::int64_t first, last;
  };
  Range seen(const Piece& piece, std::int64_t position, Part part) const;
  QueryCodes rounded(const float* scaled, std::int64_t queries, Part part) const;

  const IsaKernels& isa_;
  const KvTarget& kv_;
  const KvGroupLayout& group_;
  std::int64_t q_heads_, heads_;
  std::int64_t query_dim_, query_stride_, value_stride_;
  float scale_, softcap_;
  PageTileLayouts wide_, packed_;
  const ShortQueries* short_queries_;  // or null
  bool rounds_queries_;                // to codes
};

}  // namespace quire
