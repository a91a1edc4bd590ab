// Letting tokens go by the attention they got: what stays is gathered into pages of its own, which
// no other sequence shares and which have no name.
#include <algorithm>
#include <map>
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
    for (const PageRef& page : table.kept()) sources_.push_back({&page, &kept});
    kept_slots_ = std::ssize(sources_) * kPageTokens;
    for (std::int64_t page = table.first_position() / kPageTokens; page < first_position / kPageTokens; ++page) {
      const PageSlot& slot = table.slots()[static_cast<std::size_t>(page)];
      sources_.push_back(slot.packed ? Source{&slot.packed, &layout.packed} : Source{&slot.wide, &layout.wide});
    }
  }
  std::int64_t count() const { return table_.kept_tokens() + std::ssize(sources_) * kPageTokens - kept_slots_; }

  const PageRef& page(std::int64_t i) const { return *sources_[static_cast<std::size_t>(i)].page; }

  // [count, dim]
  std::vector<float> rows(KvStreamLayout KvPageLayout::*stream, std::int64_t layer, std::int64_t head) const {
    const std::int64_t dim = (table_.layout().wide.*stream).dim;
    std::vector<float> all(static_cast<std::size_t>(std::ssize(sources_) * kPageTokens * dim));
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const KvStreamLayout& from = sources_[i].layout->*stream;
      info(from.format)
          .decode(from.order, from.tile(sources_[i].page->data(), layer, head), dim,
                  all.data() + static_cast<std::int64_t>(i) * kPageTokens * dim);
    }
    // The last kept page may have empty slots before the first whole page.
    all.erase(all.begin() + table_.kept_tokens() * dim, all.begin() + kept_slots_ * dim);
    return all;
  }

 private:
  struct Source {
    const PageRef* page;
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

// How many holders of a page are about to let go, by the page's bytes.
using Leaving = std::map<const std::byte*, std::uint32_t>;

}  // namespace

// What eviction makes of one group.
struct KvCache::Gathering {
  std::size_t group;
  Candidates candidates;
  std::int64_t keep;
  int size_class;

  // Whether page i of the result can be the i-th candidate, filled anew: a head's rows are all read before they are
  // written, and nobody else holds the page.
  bool in_place(std::int64_t i, const Leaving& leaving) const {
    const PageRef& page = candidates.page(i);
    const auto left = leaving.find(page.data());
    return page.size_class() == size_class && page.use_count() - (left == leaving.end() ? 0 : left->second) == 1;
  }
  PageWant want(const Leaving& leaving) const {
    PageWant want{size_class, 0};
    for (std::int64_t i = 0; i < pages_for(keep); ++i) want.count += !in_place(i, leaving);
    return want;
  }
};

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

std::vector<KvCache::Gathering> KvCache::gatherings(const Sequence& sequence, const Eviction& eviction) const {
  std::vector<Gathering> all;
  for (std::size_t group = 0; group < layouts_.size(); ++group) {
    if (sequence.tables[group].visible().window > 0) continue;  // already bounded
    const Candidates candidates(sequence.tables[group], eviction.first_position);
    all.push_back({group, candidates, std::min(eviction.keep, candidates.count()),
                   layouts_[group].lossless ? wide_class(group) : packed_class(group)});
  }
  return all;
}

Result<std::vector<PageRef>> KvCache::take_to_gather(Sequence& sequence, std::span<const Gathering> all) {
  const auto wants = [&](const Leaving& leaving) {
    std::vector<PageWant> pages;
    for (const Gathering& gathering : all) pages.push_back(gathering.want(leaving));
    return pages;
  };
  auto taken = take_pages(wants({}));
  if (taken.ok() || !sequence.named) return taken;
  // What the index holds of this very sequence could go too, and be filled anew.
  const std::vector<const PageRef*> dispensable_pages = dispensable({}, sequence.named->tip());
  Leaving leaving;
  for (const PageRef* page : dispensable_pages) ++leaving[page->data()];
  if (!pool_->can_allocate(wants(leaving), dispensable_pages)) return taken;
  forget_names(sequence);
  make_room([&] { return pool_->can_allocate(wants({})); });
  return pool_->allocate(wants({}));
}

Result<void> KvCache::evict(SequenceId id, const Eviction& eviction, const RetentionPolicy& policy) {
  Sequence& sequence = at(id);
  undo_prepared(sequence);
  sequence.parked_at = 0;
  const std::vector<Gathering> all = gatherings(sequence, eviction);
  if (all.empty()) return {};
  // For all groups at once: where memory is short, nothing has changed.
  QUIRE_TRY(std::vector<PageRef> taken, take_to_gather(sequence, all));
  forget_names(sequence);
  std::ranges::reverse(taken);
  for (const Gathering& gathering : all) {
    std::vector<PageRef> pages;
    for (std::int64_t i = 0; i < pages_for(gathering.keep); ++i) {
      if (gathering.in_place(i, {})) {
        pages.push_back(gathering.candidates.page(i));
      } else {
        pages.push_back(std::move(taken.back()));
        taken.pop_back();
      }
    }
    evict_group(sequence, gathering, eviction, policy, std::move(pages));
  }
  return {};
}

void KvCache::evict_group(Sequence& sequence, const Gathering& gathering, const Eviction& eviction,
                          const RetentionPolicy& policy, std::vector<PageRef> pages) {
  const auto& [group, candidates, keep, size_class] = gathering;
  const KvGroupLayout& layout = layouts_[group];
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
  sequence.tables[group].replace_front(eviction.first_position, std::move(pages), keep);
}

}  // namespace quire
