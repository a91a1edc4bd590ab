// Attention on a CPU: how the work is cut, and how its parts are joined. What is computed together
// (rows, sequences, a shared prefix) and by which thread never shows in the bits.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "kernels/cpu/attention_merge.h"
#include "kernels/cpu/cache_reader.h"
#include "kernels/cpu/scratch.h"

namespace quire {
namespace {

// Queries that share one unpacked tile: their sums stay in the second-level cache.
constexpr std::int64_t kMaxQueries = 96;
// Partial results of all segments are kept side by side, for a fair share of the work among threads,
// while they fit the second-level cache.
constexpr std::int64_t kMaxPartFloats = 1 << 18;

using SegmentTiles = std::array<PageTiles, kSegmentPages>;

template <class Tiles>  // SegmentTiles, constant or not
auto span_of(Tiles& tiles, std::size_t span, std::size_t spans = 1) {
  return std::span(tiles.data(), tiles.size()).subspan(span * kSpanPages, spans * kSpanPages);
}
bool same_span(const SegmentTiles& a, const SegmentTiles& b, std::size_t span) {
  return std::ranges::equal(span_of(a, span), span_of(b, span));
}

// Pieces computed together: one, or several that share a prefix.
struct Block {
  std::size_t first_piece, pieces;
  std::int64_t rows;
};

// Of positions, or of tokens kept by eviction, which are counted from 0 and cut alike.
struct Segment {
  bool kept;
  std::int64_t index;

  std::int64_t begin() const { return segment_begin(index); }
  std::size_t spans() const { return static_cast<std::size_t>((segment_begin(index + 1) - begin()) / kSpanTokens); }
};

struct MadeQueries {
  std::uint64_t run = 0;  // no run has this number
  const Block* block = nullptr;
  std::int64_t kv_head = 0;
  std::array<std::optional<CacheReader::Queries>, 3> parts;  // by Part
};
std::atomic<std::uint64_t> runs{0};

struct AttentionScratch {
  Scratch part, total;
  MadeQueries queries;
  std::vector<SegmentTiles> tiles;  // of a block's pieces
};
thread_local AttentionScratch attention_scratch;
thread_local Scratch partials_scratch;

class AttentionRun {
 public:
  AttentionRun(const IsaKernels& isa, const AttentionParams& p)
      : isa_(isa), p_(p), group_(*p.kv.group), reader_(isa, p.kv, p.q_heads, p.scale, p.softcap, isa.short_queries) {
    cut();
  }

  void run(ThreadPool& pool) const {
    std::int64_t part_floats = 0;
    for (const Block& b : blocks_) {
      part_floats += static_cast<std::int64_t>(segments(b).size()) * group_.kv_heads * state_floats(b);
    }
    const auto items = static_cast<std::int64_t>(blocks_.size()) * group_.kv_heads;
    if (part_floats <= kMaxPartFloats || items < 2 * pool.size()) return split(part_floats, pool);
    // The last blocks of a prompt are the longest: they come first, so that threads end together.
    pool.for_each(items, [&](std::int64_t i) {
      const std::int64_t item = items - 1 - i;
      whole(blocks_[static_cast<std::size_t>(item / group_.kv_heads)], item % group_.kv_heads);
    });
  }

 private:
  void cut() {
    const std::int64_t most_rows = std::max<std::int64_t>(1, kMaxQueries / reader_.heads());
    pieces_ = reader_.pieces(most_rows);
    if (p_.kv.sequences.size() > 1) {
      std::stable_sort(pieces_.begin(), pieces_.end(),
                       [this](const Piece& a, const Piece& b) { return comes_before(a, b); });
    }
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const bool joins = !blocks_.empty() && blocks_.back().rows + pieces_[i].rows <= most_rows &&
                         share_a_span(pieces_[blocks_.back().first_piece], pieces_[i]);
      if (!joins) blocks_.push_back({i, 0, 0});
      blocks_.back().pieces += 1;
      blocks_.back().rows += pieces_[i].rows;
    }
  }

  // Spans a piece sees whole, from the first: [first, end), each known by its last page.
  std::int64_t first_span(const Piece& piece) const { return reader_.first_seen(piece) / kSpanTokens; }
  static std::int64_t end_of_whole_spans(const Piece& piece) { return piece.position / kSpanTokens; }
  const std::byte* last_page(const Piece& piece, std::int64_t span) const {
    return reader_.page(piece, (span + 1) * kSpanPages - 1);
  }

  // An order in which pieces that share a long prefix are neighbours.
  bool comes_before(const Piece& a, const Piece& b) const {
    std::int64_t s = first_span(a);
    if (s != first_span(b)) return s < first_span(b);
    const std::int64_t end_a = end_of_whole_spans(a), end_b = end_of_whole_spans(b);
    for (; s < std::min(end_a, end_b); ++s) {
      const std::byte* page_a = last_page(a, s);
      const std::byte* page_b = last_page(b, s);
      if (page_a != page_b) return std::less<>()(page_a, page_b);
    }
    return s >= end_a && s < end_b;
  }
  bool share_a_span(const Piece& a, const Piece& b) const {
    const std::int64_t s = first_span(a);
    return s == first_span(b) && s < end_of_whole_spans(a) && s < end_of_whole_spans(b) &&
           last_page(a, s) == last_page(b, s);
  }

  std::span<const Piece> pieces(const Block& b) const { return std::span(pieces_).subspan(b.first_piece, b.pieces); }

  std::vector<Segment> segments(const Block& b) const {
    const auto up = [](std::int64_t tokens) { return tokens > 0 ? segment_of(tokens - 1) + 1 : 0; };
    std::int64_t kept = 0, sinks = 0, end = 0, first = segment_of(pieces_[b.first_piece].position);
    for (const Piece& piece : pieces(b)) {
      kept = std::max(kept, up(piece.table->kept_tokens));
      sinks = std::max(sinks, up(piece.table->visible.sinks_at(piece.end() - 1)));
      first = std::min({first, segment_of(reader_.first_seen(piece)), segment_of(piece.position)});
      end = std::max(end, up(piece.end()));
    }
    std::vector<Segment> all;
    for (std::int64_t i = 0; i < kept; ++i) all.push_back({true, i});
    for (std::int64_t i = 0; i < std::min(sinks, first); ++i) all.push_back({false, i});
    for (std::int64_t i = first; i < end; ++i) all.push_back({false, i});
    return all;
  }

  std::int64_t queries(const Block& b) const { return b.rows * reader_.heads(); }
  std::int64_t state_floats(const Block& b) const { return queries(b) * (reader_.value_stride() + 2); }
  // Outputs, then maxima, then sums; of the queries from number `query` on.
  SoftmaxStates states(const Block& b, float* at, std::int64_t query = 0) const {
    float* max = at + queries(b) * reader_.value_stride();
    return {at + query * reader_.value_stride(), max + query, max + queries(b) + query};
  }

  // Queries of a block and head, made when a part first asks for them. A thread takes neighbouring segments of a head:
  // what it made for the last one serves the next.
  class BlockQueries {
   public:
    BlockQueries(const AttentionRun& run, const Block& b, std::int64_t kv_head)
        : run_(run), b_(b), kv_head_(kv_head), made_(attention_scratch.queries) {
      if (made_.run == run.number_ && made_.block == &b && made_.kv_head == kv_head) return;
      made_ = {run.number_, &b, kv_head, {}};
    }
    const CacheReader::Queries& of(Part part) {
      auto& made = made_.parts[static_cast<std::size_t>(part)];
      const float* q = part == Part::sinks ? run_.p_.q_sinks : run_.p_.q;
      if (!made) made = run_.reader_.queries(run_.pieces(b_), part, kv_head_, q);
      return *made;
    }

   private:
    const AttentionRun& run_;
    const Block& b_;
    std::int64_t kv_head_;
    MadeQueries& made_;
  };

  // ahead: what this thread reads after this, or null.
  void attend(const Block& b, std::int64_t kv_head, const Segment& segment, BlockQueries& queries_of, float* part,
              const PageTiles* ahead) const {
    const SoftmaxStates all = states(b, part);
    std::fill(all.out, all.max, 0.f);
    std::fill(all.max, all.sum, -INFINITY);
    std::fill_n(all.sum, queries(b), 0.f);
    if (segment.kept) return attend(b, kv_head, Part::kept, segment, queries_of, part, ahead);
    const auto has_sinks = [&](const Piece& piece) {
      return segment.begin() < piece.table->visible.sinks_at(piece.end() - 1);
    };
    if (std::ranges::any_of(pieces(b), has_sinks)) {
      attend(b, kv_head, Part::sinks, segment, queries_of, part, nullptr);
    }
    attend(b, kv_head, Part::usual, segment, queries_of, part, ahead);
  }

  void attend(const Block& b, std::int64_t kv_head, Part kind, const Segment& segment, BlockQueries& queries_of,
              float* part, const PageTiles* ahead) const {
    auto& tiles = attention_scratch.tiles;
    tiles.resize(b.pieces);
    for (std::size_t i = 0; i < b.pieces; ++i) {
      reader_.tiles(pieces(b)[i], kind, segment.begin(), kv_head, span_of(tiles[i], 0, segment.spans()));
    }
    attend_from(0, {b, segment.begin(), segment.spans(), queries_of.of(kind), part}, {0, b.pieces, 0}, ahead);
  }

  struct SegmentRun {
    const Block& block;
    std::int64_t begin;
    std::size_t spans;
    const CacheReader::Queries& queries;
    float* part;
  };
  struct Pieces {
    std::size_t first, end;
    std::int64_t query;  // the first one's first
  };

  // The segment's spans from number `span` on. Neighbours that have the same pages are read once; from where they part
  // each goes on by itself.
  void attend_from(std::size_t span, const SegmentRun& run, Pieces these, const PageTiles* ahead) const {
    const auto& tiles = attention_scratch.tiles;
    for (std::size_t i = these.first; i < these.end;) {
      const auto all_share = [&](std::size_t end, std::size_t at) {
        return std::all_of(tiles.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                           tiles.begin() + static_cast<std::ptrdiff_t>(end),
                           [&](const SegmentTiles& other) { return same_span(other, tiles[i], at); });
      };
      std::int64_t rows = pieces(run.block)[i].rows;
      std::size_t end = i + 1, end_span = span + 1;
      for (; end < these.end && same_span(tiles[end], tiles[i], span); ++end) rows += pieces(run.block)[end].rows;
      while (end_span < run.spans && all_share(end, end_span)) ++end_span;
      const PageTiles* after = end < these.end ? span_of(tiles[end], span).data() : ahead;
      const bool part = end_span < run.spans;
      const std::int64_t count = rows * reader_.heads();
      const Stretch stretch =
          reader_.stretch(run.queries, these.query, count, run.begin + static_cast<std::int64_t>(span) * kSpanTokens,
                          span_of(tiles[i], span, end_span - span), part ? span_of(tiles[i], end_span).data() : after);
      if (stretch.pages > 0) isa_.attend(stretch, states(run.block, run.part, these.query));
      if (part) attend_from(end_span, run, {i, end, these.query}, after);
      these.query += count;
      i = end;
    }
  }

  void merge(const Block& b, float* total, float* part) const {
    const SoftmaxStates to = states(b, total), from = states(b, part);
    const std::int64_t stride = reader_.value_stride();
    for (std::int64_t i = 0; i < queries(b); ++i) {
      merge_softmax(to.out + i * stride, to.max[i], to.sum[i], from.out + i * stride, from.max[i], from.sum[i], stride);
    }
  }

  void finish(const Block& b, std::int64_t kv_head, float* total) const {
    const SoftmaxStates state = states(b, total);
    const std::int64_t heads = reader_.heads(), dim = group_.wide.values.dim;
    std::int64_t i = 0;
    for (const Piece& piece : pieces(b)) {
      for (std::int64_t r = 0; r < piece.rows; ++r) {
        for (std::int64_t h = 0; h < heads; ++h, ++i) {
          const std::int64_t to = (piece.row + r) * p_.q_heads + kv_head * heads + h;
          isa_.scale_row(state.out + i * reader_.value_stride(), 1.f / state.sum[i], dim, p_.out + to * dim);
          if (p_.log_sum_exp != nullptr) p_.log_sum_exp[to] = state.max[i] + std::log(state.sum[i]);
        }
      }
    }
  }

  // One thread takes a block through all its segments.
  void whole(const Block& b, std::int64_t kv_head) const {
    float* total = attention_scratch.total.get<float>(state_floats(b));
    float* part = total;
    BlockQueries queries_of(*this, b, kv_head);
    for (const Segment& segment : segments(b)) {
      attend(b, kv_head, segment, queries_of, part, nullptr);
      if (part != total) merge(b, total, part);
      part = attention_scratch.part.get<float>(state_floats(b));
    }
    finish(b, kv_head, total);
  }

  // Segments are shared out. Whoever computes the last of a block and head merges all of them, in order.
  void split(std::int64_t part_floats, ThreadPool& pool) const {
    struct Whole {
      const Block* block;
      std::int64_t kv_head;
      float* parts;  // of its segments, side by side
      std::int64_t segments;
      std::atomic<std::int64_t> missing;
    };
    struct Item {
      Whole* whole;
      Segment segment;
      float* part;
    };
    std::vector<Item> items;
    std::vector<Whole> wholes(blocks_.size() * static_cast<std::size_t>(group_.kv_heads));
    float* part = partials_scratch.get<float>(part_floats);
    Whole* whole = wholes.data();
    for (const Block& b : blocks_) {
      const auto all = segments(b);
      for (std::int64_t h = 0; h < group_.kv_heads; ++h, ++whole) {
        whole->block = &b;
        whole->kv_head = h;
        whole->parts = part;
        whole->segments = std::ssize(all);
        whole->missing.store(std::ssize(all), std::memory_order_relaxed);
        for (const Segment& segment : all) {
          items.push_back({whole, segment, part});
          part += state_floats(b);
        }
      }
    }
    pool.for_each(std::ssize(items), [&](std::int64_t i) {
      const Item& item = items[static_cast<std::size_t>(i)];
      Whole& of = *item.whole;
      const Block& b = *of.block;
      BlockQueries queries_of(*this, b, of.kv_head);
      std::array<PageTiles, kSpanPages> ahead{};
      if (i + 1 < std::ssize(items)) {
        const Item& next = items[static_cast<std::size_t>(i + 1)];
        reader_.tiles(pieces_[next.whole->block->first_piece], next.segment.kept ? Part::kept : Part::usual,
                      next.segment.begin(), next.whole->kv_head, ahead);
      }
      attend(b, of.kv_head, item.segment, queries_of, item.part, ahead.data());
      if (of.missing.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
      for (std::int64_t s = 1; s < of.segments; ++s) merge(b, of.parts, of.parts + s * state_floats(b));
      finish(b, of.kv_head, of.parts);
    });
  }

  const IsaKernels& isa_;
  const AttentionParams& p_;
  const KvGroupLayout& group_;
  CacheReader reader_;
  std::uint64_t number_ = ++runs;
  std::vector<Piece> pieces_;
  std::vector<Block> blocks_;
};

}  // namespace

void cpu_attention(const IsaKernels& isa, const AttentionParams& p, ThreadPool& pool) {
  AttentionRun(isa, p).run(pool);
}

// 512 tokens of a KV head are one thread's, which takes the queries in order: so sums do not depend on
// how rows were cut into calls.
void cpu_score(const IsaKernels& isa, const ScoreParams& p, ThreadPool& pool) {
  constexpr std::int64_t kSegmentTokens = kShortSegmentPages * kPageTokens;
  const KvGroupLayout& group = *p.kv.group;
  const CacheReader reader(isa, p.kv, p.q_heads, p.scale, p.softcap);
  const KvRows& rows = p.kv.sequences[0];
  const auto pieces = reader.pieces(rows.rows);
  const std::int64_t heads = reader.heads(), kept = rows.table.kept_tokens, first = rows.table.first_position;
  const std::int64_t end = rows.first_position + rows.rows, slots = kept + end - first;
  const std::int64_t kept_segments = (kept + kSegmentTokens - 1) / kSegmentTokens;
  const std::int64_t first_segment = first / kSegmentTokens;
  const std::int64_t segments = kept_segments + (end + kSegmentTokens - 1) / kSegmentTokens - first_segment;
  pool.for_each(segments * group.kv_heads, [&](std::int64_t item) {
    const std::int64_t kv_head = item / segments, number = item % segments;
    const Part part = number < kept_segments ? Part::kept : Part::usual;
    const std::int64_t segment = part == Part::kept ? number : number - kept_segments + first_segment;
    const std::int64_t begin = segment * kSegmentTokens;
    const std::int64_t from = part == Part::kept ? begin : std::max(begin, first);
    const std::int64_t to = std::min(begin + kSegmentTokens, part == Part::kept ? kept : end);
    float* slot = p.sums + kv_head * slots + (part == Part::kept ? from : kept + from - first);
    float sums[kSegmentTokens] = {};
    std::copy_n(slot, to - from, sums + (from - begin));
    for (const Piece& piece : pieces) {
      std::array<PageTiles, kShortSegmentPages> tiles;
      reader.tiles(piece, part, begin, kv_head, tiles);
      const auto queries = reader.queries({&piece, 1}, part, kv_head, p.q);
      const Stretch stretch = reader.stretch(queries, 0, piece.rows * heads, begin, tiles);
      if (stretch.pages == 0) continue;
      std::vector<float> log_sum_exp;
      for (std::int64_t r = 0; r < piece.rows; ++r) {
        const float* at = p.log_sum_exp + (piece.row + r) * p.q_heads + kv_head * heads;
        log_sum_exp.insert(log_sum_exp.end(), at, at + heads);
      }
      isa.score(stretch, log_sum_exp.data(), sums);
    }
    std::copy_n(sums + (from - begin), to - from, slot);
  });
}

}  // namespace quire
