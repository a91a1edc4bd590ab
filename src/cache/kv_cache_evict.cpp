// Letting tokens go by the attention they got: what stays is gathered into pages of its own, which
// no other sequence shares and which have no name.
#include <algorithm>
#include <numeric>

#include "cache/kv_cache.h"
#include "core/check.h"
#include "core/fail.h"

namespace quire {
namespace {

// The `keep` largest, as ascending indices; of equals the later ones.
std::vector<std::int64_t> largest(std::span<const float> scores, std::int64_t keep) {
  std::vector<std::int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto better = [&](std::int64_t a, std::int64_t b) {
    const float x = scores[static_cast<std::size_t>(a)], y = scores[static_cast<std::size_t>(b)];
    return x != y ? x > y : a > b;
  };
  std::nth_element(order.begin(), order.begin() + keep, order.end(), better);
  order.resize(static_cast<std::size_t>(keep));
  std::ranges::sort(order);
  return order;
}

// One head's candidates as plain rows: first what was kept before, then whole pages.
class Candidates {
 public:
  Candidates(const PageTable& table, std::int64_t first_position) : table_(table) {
    const KvGroupLayout& layout = table.layout();
    const KvPageLayout& kept = layout.lossless ? layout.wide : layout.packed;
    for (const PageRef& page : table.kept()) sources_.push_back({page.data(), &kept});
    kept_slots_ = std::ssize(sources_) * kPageTokens;
    for (std::int64_t page = table.first_position() / kPageTokens; page < first_position / kPageTokens; ++page) {
      const PageSlot& slot = table.slots()[static_cast<std::size_t>(page)];
      sources_.push_back(slot.packed ? Source{slot.packed.data(), &layout.packed}
                                     : Source{slot.wide.data(), &layout.wide});
    }
  }
  std::int64_t count() const { return table_.kept_tokens() + std::ssize(sources_) * kPageTokens - kept_slots_; }

  // [count, dim]
  std::vector<float> rows(KvStreamLayout KvPageLayout::*stream, std::int64_t layer, std::int64_t head) const {
    const std::int64_t dim = (table_.layout().wide.*stream).dim;
    std::vector<float> all(static_cast<std::size_t>(std::ssize(sources_) * kPageTokens * dim));
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const KvStreamLayout& from = sources_[i].layout->*stream;
      info(from.format)
          .decode(from.order, from.tile(sources_[i].page, layer, head), dim,
                  all.data() + static_cast<std::int64_t>(i) * kPageTokens * dim);
    }
    // The last kept page may have empty slots before the first whole page.
    all.erase(all.begin() + table_.kept_tokens() * dim, all.begin() + kept_slots_ * dim);
    return all;
  }

 private:
  struct Source {
    const std::byte* page;
    const KvPageLayout* layout;
  };
  const PageTable& table_;
  std::vector<Source> sources_;
  std::int64_t kept_slots_ = 0;
};

void gather(const std::vector<float>& rows, const std::vector<std::int64_t>& picks, const KvStreamLayout& to,
            std::int64_t layer, std::int64_t head, std::span<const PageRef> pages) {
  std::vector<float> tile(static_cast<std::size_t>(kPageTokens * to.dim));
  for (std::size_t page = 0; page < pages.size(); ++page) {
    for (std::size_t slot = 0; slot < kPageTokens; ++slot) {
      // Slots beyond the last repeat it: where tokens share a scale, they must not widen its range.
      const std::int64_t pick = picks[std::min(page * kPageTokens + slot, picks.size() - 1)];
      std::copy_n(rows.begin() + pick * to.dim, to.dim, tile.begin() + static_cast<std::ptrdiff_t>(slot) * to.dim);
    }
    info(to.format).encode(to.order, tile.data(), to.dim, to.tile(pages[page].data(), layer, head));
  }
}

}  // namespace

void KvCache::add_scores(SequenceId id, std::span<const float> sums) {
  Sequence& sequence = at(id);
  std::size_t from = 0;
  for (const KvLayerRef place : layer_map_) {
    const auto group = static_cast<std::size_t>(place.group);
    const KvGroupLayout& layout = layouts_[group];
    const PageTable& table = sequence.tables[group];
    const auto cached = static_cast<std::size_t>(table.kept_tokens() + sequence.length() - table.first_position());
    auto& scores = sequence.scores[group];
    scores.resize(static_cast<std::size_t>(layout.layers * layout.kv_heads));
    for (std::int64_t head = 0; head < layout.kv_heads; ++head, from += cached) {
      std::vector<float>& head_scores = scores[static_cast<std::size_t>(place.layer * layout.kv_heads + head)];
      head_scores.resize(cached);
      if (table.visible().window > 0) continue;
      for (std::size_t i = 0; i < cached; ++i) head_scores[i] += sums[from + i];
    }
  }
  QUIRE_ASSERT(from == sums.size(), "scores of another shape");
}

RetentionState KvCache::retention_state(SequenceId id, std::int64_t prompt) const {
  const Sequence& sequence = at(id);
  RetentionState state{sequence.length(), prompt, 0, 0};
  for (const PageTable& table : sequence.tables) {
    if (table.visible().window > 0) continue;
    state.kept = table.kept_tokens();
    state.first_position = table.first_position();
  }
  return state;
}

Result<void> KvCache::evict(SequenceId id, const Eviction& eviction, const RetentionPolicy& policy) {
  Sequence& sequence = at(id);
  undo_prepared(sequence);
  sequence.parked_at = 0;
  std::vector<std::size_t> groups;
  std::vector<PageWant> wants;
  for (std::size_t group = 0; group < layouts_.size(); ++group) {
    const KvGroupLayout& layout = layouts_[group];
    if (sequence.tables[group].visible().window > 0) continue;  // already bounded
    const Candidates candidates(sequence.tables[group], eviction.first_position);
    const std::int64_t keep = std::min(eviction.keep, candidates.count());
    groups.push_back(group);
    wants.push_back(
        {layout.lossless ? wide_class(group) : packed_class(group), static_cast<std::uint64_t>(pages_for(keep))});
  }
  if (groups.empty()) return {};
  // For all groups at once: where memory is short, nothing has changed.
  QUIRE_TRY(std::vector<PageRef> taken, take_pages(wants));
  forget_names(sequence);
  auto next = std::make_move_iterator(taken.begin());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto end = next + static_cast<std::ptrdiff_t>(wants[i].count);
    evict_group(sequence, groups[i], eviction, policy, std::vector<PageRef>(next, end));
    next = end;
  }
  return {};
}

void KvCache::evict_group(Sequence& sequence, std::size_t group, const Eviction& eviction,
                          const RetentionPolicy& policy, std::vector<PageRef> pages) {
  const KvGroupLayout& layout = layouts_[group];
  PageTable& table = sequence.tables[group];
  const Candidates candidates(table, eviction.first_position);
  const std::int64_t keep = std::min(eviction.keep, candidates.count());
  const KvPageLayout& target = layout.lossless ? layout.wide : layout.packed;
  // Tokens that nobody scored got no attention.
  sequence.scores[group].resize(static_cast<std::size_t>(layout.layers * layout.kv_heads));
  sequence.fit_scores();
  for (std::int64_t layer = 0; layer < layout.layers; ++layer) {
    for (std::int64_t head = 0; head < layout.kv_heads; ++head) {
      std::vector<float>& scores = sequence.scores[group][static_cast<std::size_t>(layer * layout.kv_heads + head)];
      std::vector<float> ranks(scores.begin(), scores.begin() + candidates.count());
      policy.rank(ranks);
      const std::vector<std::int64_t> picks = largest(ranks, keep);
      gather(candidates.rows(&KvPageLayout::keys, layer, head), picks, target.keys, layer, head, pages);
      gather(candidates.rows(&KvPageLayout::values, layer, head), picks, target.values, layer, head, pages);
      std::vector<float> left;
      left.reserve(scores.size());
      for (const std::int64_t pick : picks) left.push_back(scores[static_cast<std::size_t>(pick)]);
      left.insert(left.end(), scores.begin() + candidates.count(), scores.end());
      scores = std::move(left);
    }
  }
  counters_.evicted_tokens += static_cast<std::uint64_t>(candidates.count() - keep);
  table.replace_front(eviction.first_position, std::move(pages), keep);
}

}  // namespace quire
