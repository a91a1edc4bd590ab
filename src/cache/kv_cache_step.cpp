// One step: room for it, its pages, and what becomes of them.
#include <algorithm>
#include <limits>

#include "cache/kv_cache.h"
#include "core/check.h"
#include "core/fail.h"

namespace quire {

void make_copies(const StepPlan& plan, std::span<const KvGroupLayout> layouts) {
  for (const StepPlan::Copy& copy : plan.copies) {
    copy_tokens(layouts[static_cast<std::size_t>(copy.group)], copy.page.from, copy.page.to, copy.page.tokens);
  }
}

// The index lets go of what nobody uses, the adaptive strategy of parked sequences too.
std::vector<const PageRef*> KvCache::dispensable(std::span<const StepWant> wants, BlockId unpinned_too) const {
  std::vector<const PageRef*> pages;
  std::vector<BlockId> unpinned;
  if (unpinned_too != kNoBlock) unpinned.push_back(unpinned_too);
  for (const auto& [id, sequence] : sequences_) {
    const bool wanted = std::ranges::find(wants, id, &StepWant::id) != wants.end();
    const bool leaves = strategy_.kind == CacheStrategy::Kind::adaptive && sequence.parked_at > 0 && !wanted;
    if (leaves && sequence.named && sequence.named->tip() != kNoBlock) unpinned.push_back(sequence.named->tip());
    for (const PageTable& table : sequence.tables) {
      if (leaves) {
        table.for_each_page(sequence.length(), [&](const PageRef& page, auto, auto) { pages.push_back(&page); });
      } else if (wanted && sequence.prepared > 0) {
        table.for_each_prepared_page(sequence.length(), [&](const PageRef& page) { pages.push_back(&page); });
      }
    }
  }
  if (prefixes_ != nullptr) prefixes_->dispensable(unpinned, pages);
  return pages;
}

// Pages nobody uses make room, the least useful first; but only where that will do.
Result<std::vector<PageRef>> KvCache::take_pages(std::span<const PageWant> wants) {
  if (pool_->can_allocate(wants)) return pool_->allocate(wants);
  const std::vector<const PageRef*> leaving = dispensable({});
  if (!pool_->can_allocate(wants, leaving)) {
    std::uint64_t bytes = 0;
    for (const PageWant& want : wants) bytes += want.count * pool_->page_bytes(want.size_class);
    return fail(Errc::out_of_memory,
                "[cache] {} bytes of pages do not fit: of a budget of {}, {} are free or could be freed; raise "
                "--cache-bytes or run fewer requests at once",
                bytes, pool_->budget_bytes(), pool_->free_bytes(leaving));
  }
  make_room([&] { return pool_->can_allocate(wants); });
  return pool_->allocate(wants);
}

void KvCache::make_room(const std::function<bool()>& enough) {
  while (!enough()) {
    if (prefixes_ != nullptr && prefixes_->evict()) {
      ++counters_.evicted_pages;
    } else if (strategy_.kind != CacheStrategy::Kind::adaptive || !release_oldest_parked()) {
      return;
    }
  }
}

bool KvCache::release_oldest_parked() {
  const auto age = [](const auto& entry) {
    return entry.second.parked_at > 0 ? entry.second.parked_at : std::numeric_limits<std::uint64_t>::max();
  };
  const auto oldest = std::ranges::min_element(sequences_, {}, age);
  if (oldest == sequences_.end() || oldest->second.parked_at == 0) return false;
  release(oldest->first);
  ++counters_.released_sequences;
  return true;
}

void KvCache::relieve_pressure() {
  if (strategy_.kind != CacheStrategy::Kind::adaptive || prefixes_ == nullptr) return;
  const double keep = strategy_.share_to_keep(counters_.hit_rate()) * static_cast<double>(pool_->budget_bytes());
  while (static_cast<double>(pool_->counters().used_bytes) > keep && prefixes_->evict()) ++counters_.evicted_pages;
}

void KvCache::undo_prepared(Sequence& sequence) {
  sequence.appending = false;
  if (sequence.prepared == 0) return;
  for (PageTable& table : sequence.tables) table.undo(sequence.length());
  sequence.prepared = 0;
}

std::vector<PageWant> KvCache::pages_for_step(std::span<const StepWant> wants) const {
  std::vector<PageWant> pages;
  for (std::size_t group = 0; group < layouts_.size(); ++group) {
    PageNeed total;
    for (const StepWant& want : wants) {
      QUIRE_ASSERT(want.tokens >= 0, "a step goes forward");
      const Sequence& sequence = at(want.id);
      const PageNeed need = sequence.tables[group].need(sequence.length(), want.tokens);
      total.wide += need.wide;
      total.packed += need.packed;
    }
    pages.push_back({wide_class(group), static_cast<std::uint64_t>(total.wide)});
    pages.push_back({packed_class(group), static_cast<std::uint64_t>(total.packed)});
  }
  return pages;
}

bool KvCache::could_prepare(std::span<const StepWant> wants) const {
  const std::vector<PageWant> pages = pages_for_step(wants);
  return pool_->can_allocate(pages) || pool_->can_allocate(pages, dispensable(wants));
}

std::uint64_t KvCache::fresh_bytes(std::span<const StepWant> wants) const {
  return pool_->fresh_bytes(pages_for_step(wants));
}

Result<StepPlan> KvCache::prepare(std::span<const StepWant> wants) {
  for (const StepWant& want : wants) {
    undo_prepared(at(want.id));
    at(want.id).parked_at = 0;
  }
  const std::vector<PageWant> pages = pages_for_step(wants);
  QUIRE_TRY(auto taken, take_pages(pages));

  StepPlan plan;
  plan.tables.resize(wants.size());
  for (std::size_t group = 0; group < layouts_.size(); ++group) {
    // The pool gave them in the order they were asked for.
    const auto split = taken.begin() + static_cast<std::ptrdiff_t>(pages[2 * group].count);
    std::vector<PageRef> wide(std::make_move_iterator(taken.begin()), std::make_move_iterator(split));
    const auto end = split + static_cast<std::ptrdiff_t>(pages[2 * group + 1].count);
    std::vector<PageRef> packed(std::make_move_iterator(split), std::make_move_iterator(end));
    taken.erase(taken.begin(), end);
    // Tables take from the end: so a sequence's pages follow one another as they lie in memory.
    std::ranges::reverse(wide);
    std::ranges::reverse(packed);
    std::vector<PageCopy> copies;
    for (const StepWant& want : wants) {
      Sequence& sequence = at(want.id);
      sequence.tables[group].extend(sequence.length(), want.tokens, wide, packed, copies);
      sequence.prepared = want.tokens;
    }
    for (const PageCopy& copy : copies) plan.copies.push_back({static_cast<std::int64_t>(group), copy});
  }
  counters_.copied_pages += plan.copies.size();
  for (std::size_t i = 0; i < wants.size(); ++i) {
    for (const PageTable& table : at(wants[i].id).tables) plan.tables[i].push_back(table.view());
  }
  return plan;
}

void KvCache::commit(SequenceId id, std::span<const TokenId> tokens) {
  Sequence& sequence = at(id);
  QUIRE_ASSERT(std::ssize(tokens) <= sequence.prepared, "more tokens than were prepared");
  if (tokens.empty()) return undo_prepared(sequence);
  const std::int64_t before = sequence.length();
  sequence.tokens.insert(sequence.tokens.end(), tokens.begin(), tokens.end());
  for (PageTable& table : sequence.tables) {
    for (std::int64_t page = before / kPageTokens; page < sequence.length() / kPageTokens; ++page) {
      counters_.encoded_pages += table.layout().packs(page);
    }
  }
  // Named before 16-bit sources are given back: a checkpoint may want them.
  name_pages(sequence);
  constexpr std::int64_t kCheckpointTokens = 2048;
  if (before / kCheckpointTokens != sequence.length() / kCheckpointTokens) checkpoint(id);
  for (PageTable& table : sequence.tables) table.settle(sequence.length());
  sequence.prepared = 0;
  sequence.appending = false;
  relieve_pressure();
}

}  // namespace quire
