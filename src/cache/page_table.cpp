#include "cache/page_table.h"

#include <algorithm>

#include "core/check.h"
#include "core/planted.h"

namespace quire {
namespace {

std::size_t at(std::int64_t page) { return static_cast<std::size_t>(page); }

}  // namespace

PageNeed PageTable::need(std::int64_t length, std::int64_t count) const {
  PageNeed need;
  if (count == 0) return need;
  const std::int64_t first = length / kPageTokens, end = length + count;
  need.wide = pages_for(end) - pages_for(length);
  // While a copy of the open page is prepared, what counts is who holds the page itself.
  const auto shared = [&] { return (replaced_ ? replaced_ : slots_[at(first)].wide).use_count() > 1; };
  if (length % kPageTokens != 0 && shared()) ++need.wide;
  for (std::int64_t page = first; page < end / kPageTokens; ++page) need.packed += layout_->packs(page);
  return need;
}

void PageTable::extend(std::int64_t length, std::int64_t count, std::vector<PageRef>& wide,
                       std::vector<PageRef>& packed, std::vector<PageCopy>& copies) {
  const auto take = [](std::vector<PageRef>& pages) {
    QUIRE_ASSERT(!pages.empty(), "fewer pages than were needed");
    PageRef page = std::move(pages.back());
    pages.pop_back();
    return page;
  };
  if (count == 0) return;
  const std::int64_t first = length / kPageTokens, filled = length % kPageTokens, end = length + count;
  QUIRE_ASSERT(std::ssize(slots_) == pages_for(length), "a table that does not end at the sequence's length");
  changes_from(first);
  if (filled != 0 && slots_[at(first)].wide.use_count() > 1) {
    PageRef mine = take(wide);
    copies.push_back({slots_[at(first)].wide.data(), mine.data(), filled - planted(Bug::copy_one_row_short)});
    replaced_ = std::exchange(slots_[at(first)].wide, std::move(mine));
  }
  while (std::ssize(slots_) < pages_for(end)) slots_.push_back({take(wide), {}});
  for (std::int64_t page = first; page < end / kPageTokens; ++page) {
    if (layout_->packs(page)) slots_[at(page)].packed = take(packed);
  }
}

void PageTable::undo(std::int64_t length) {
  changes_from(length / kPageTokens);
  slots_.resize(at(std::min(std::ssize(slots_), pages_for(length))));
  if (length % kPageTokens == 0) return;
  slots_.back().packed = {};
  if (replaced_) slots_.back().wide = std::exchange(replaced_, {});
}

void PageTable::settle(std::int64_t length) {
  replaced_ = {};
  const std::int64_t open = length / kPageTokens;
  slots_.resize(at(std::min(std::ssize(slots_), pages_for(length))));
  changes_from(settled_);
  for (std::int64_t page = settled_; page < std::ssize(slots_); ++page) {
    PageSlot& slot = slots_[at(page)];
    if (page >= open) slot.packed = {};
    if (page < open && !layout_->reads_wide(page, open)) slot.wide = {};
    if (visible_.holds_page(page, length)) continue;
    if (planted(Bug::window_frees_shared) && slot.wide.use_count() > 1) slot.wide.miscount();
    slot = {};
  }
  const auto final = [&](std::int64_t page) {
    const bool wide_for_ever = layout_->lossless || page < layout_->sink_pages;
    const bool held_for_ever = visible_.window == 0 || page * kPageTokens < visible_.sinks;
    return (wide_for_ever || !layout_->reads_wide(page, open)) && (held_for_ever || !visible_.holds_page(page, length));
  };
  while (settled_ < open && final(settled_)) ++settled_;
}

// Every page the query at `length` reads must be there in the state it reads.
bool PageTable::resumable(std::int64_t length) const {
  const std::int64_t open = length / kPageTokens;
  if (length < first_position_) return length == 0 && kept_tokens_ == 0;
  if (pages_for(length) > std::ssize(slots_)) return false;
  if (length % kPageTokens != 0 && !slots_[at(open)].wide) return false;
  for (std::int64_t page = first_position_ / kPageTokens; page < open; ++page) {
    if (!visible_.sees_page(page, length)) continue;
    if (!(layout_->reads_wide(page, open) ? slots_[at(page)].wide : slots_[at(page)].packed)) return false;
  }
  return true;
}

void PageTable::truncate(std::int64_t length) {
  if (length == 0) return clear();
  settled_ = std::min(settled_, length / kPageTokens);
  changes_from(length / kPageTokens);
  slots_.resize(at(std::min(std::ssize(slots_), pages_for(length))));
  if (length % kPageTokens != 0) slots_.back().packed = {};
}

void PageTable::drop_front(std::int64_t position) {
  const std::int64_t pages = std::min(position / kPageTokens, std::ssize(slots_));
  QUIRE_ASSERT(pages * kPageTokens >= first_position_, "a front that was dropped before");
  changes_from(first_position_ / kPageTokens);
  for (std::int64_t page = first_position_ / kPageTokens; page < pages; ++page) slots_[at(page)] = {};
  first_position_ = pages * kPageTokens;
  kept_.clear();
  kept_tokens_ = 0;
}

void PageTable::miscount() {
  for (PageSlot& slot : slots_) {
    if (slot.wide) slot.wide.miscount();
  }
}

void PageTable::clear() {
  slots_.clear();
  settled_ = 0;
  changes_from(0);
  kept_.clear();
  kept_tokens_ = 0;
  first_position_ = 0;
}

void PageTable::replace_front(std::int64_t first, std::vector<PageRef> kept, std::int64_t kept_tokens) {
  QUIRE_ASSERT(first % kPageTokens == 0 && std::ssize(kept) == pages_for(kept_tokens), "kept pages that do not fit");
  drop_front(first);
  kept_ = std::move(kept);
  kept_tokens_ = kept_tokens;
}

KvTable PageTable::view() const {
  const auto data = [](const PageRef& page) { return page ? page.data() : nullptr; };
  entries_.resize(slots_.size());
  for (; viewed_ < std::ssize(slots_); ++viewed_) {
    const PageSlot& slot = slots_[at(viewed_)];
    entries_[at(viewed_)] = {data(slot.wide), data(slot.packed)};
  }
  kept_entries_.clear();
  for (const PageRef& page : kept_) kept_entries_.push_back(page.data());
  return {entries_.data(), kept_entries_.data(), kept_tokens_, first_position_, visible_};
}

}  // namespace quire
