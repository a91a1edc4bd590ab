// One sequence's pages in one layer group: which page holds which positions, in which state.
//
//   slot:    0        1        2        3
//           [wide  ] [packed] [packed] [wide, open]        formats that are encoded, one sink page
//           [wide  ] [wide  ] [wide  ] [wide, open]        formats that are not
//
// A page is open while it fills and sealed when it is full. Sealed pages never change, so tables may
// share them. An open page may be shared too (fork): whoever writes to it first copies it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "cache/page_pool.h"
#include "kv/layout.h"

namespace quire {

struct PageSlot {
  PageRef wide;
  PageRef packed;
};

// The first `tokens` tokens of a wide page, to be copied before anything is written.
struct PageCopy {
  const std::byte* from;
  std::byte* to;
  std::int64_t tokens;
};

struct PageNeed {
  std::int64_t wide = 0;
  std::int64_t packed = 0;
};

class PageTable {
 public:
  PageTable(const KvGroupLayout& layout, const KvVisibility& visible) : layout_(&layout), visible_(visible) {}

  // Pages to be had before positions [length, length + count) can be written, encoded where they
  // complete a page, and read.
  PageNeed need(std::int64_t length, std::int64_t count) const;
  // Takes exactly those pages from the ends of the two lists. A page that has to be copied first is
  // appended to `copies`; its old self stays here until settle() or undo().
  void extend(std::int64_t length, std::int64_t count, std::vector<PageRef>& wide, std::vector<PageRef>& packed,
              std::vector<PageCopy>& copies);
  // As before extend(), whether or not the copy was made.
  void undo(std::int64_t length);
  // The sequence has `length` tokens for good: what was encoded beyond is discarded, 16-bit
  // sources and pages outside the window are given back.
  void settle(std::int64_t length);

  // Whether the next query could be computed if the sequence ended at `length`.
  bool resumable(std::int64_t length) const;
  // Forgets what lies at `length` and beyond; `length` is resumable.
  void truncate(std::int64_t length);
  // Forgets whole pages below `position`, and with them what was kept of the tokens before.
  void drop_front(std::int64_t position);
  void clear();
  void miscount();  // a planted bug: see PageRef

  PageSlot& slot(std::int64_t page) {
    changes_from(page);
    return slots_[static_cast<std::size_t>(page)];
  }
  // For prefix reuse: page number size() of the table, sealed, shared with whoever else holds it.
  void push_sealed(PageSlot slot) { slots_.push_back(std::move(slot)); }

  // Tokens kept by eviction: `kept_tokens` slots per head in these pages; positions below `first`
  // are gone from the table.
  void replace_front(std::int64_t first, std::vector<PageRef> kept, std::int64_t kept_tokens);

  const KvGroupLayout& layout() const { return *layout_; }
  const KvVisibility& visible() const { return visible_; }
  std::span<const PageSlot> slots() const { return slots_; }
  std::span<const PageRef> kept() const { return kept_; }
  std::int64_t kept_tokens() const { return kept_tokens_; }
  // visit(page, bytes, open): every page held by a sequence of `length` tokens, once for each time.
  template <class Visit>
  void for_each_page(std::int64_t length, Visit&& visit) const;
  // Those that undo() gives back.
  template <class Visit>
  void for_each_prepared_page(std::int64_t length, Visit&& visit) const;
  std::int64_t first_position() const { return first_position_; }

  // Valid until the table changes.
  KvTable view() const;

 private:
  void changes_from(std::int64_t page) { viewed_ = std::min(viewed_, page); }

  const KvGroupLayout* layout_;
  KvVisibility visible_;
  std::vector<PageSlot> slots_;  // [page]; empty where nothing is kept any more
  PageRef replaced_;             // the open page as it was, while the step at hand has a copy of it
  std::vector<PageRef> kept_;
  std::int64_t kept_tokens_ = 0;
  std::int64_t first_position_ = 0;
  std::int64_t settled_ = 0;  // pages before this one have nothing left to give back
  // The same as plain pointers, brought up to date by view() from the first page that changed.
  mutable std::int64_t viewed_ = 0;
  mutable std::vector<KvTableEntry> entries_;
  mutable std::vector<const std::byte*> kept_entries_;
};

template <class Visit>
void PageTable::for_each_page(std::int64_t length, Visit&& visit) const {
  const auto open = static_cast<std::size_t>(length / kPageTokens);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].wide) visit(slots_[i].wide, layout_->wide.bytes, i >= open);
    if (slots_[i].packed) visit(slots_[i].packed, layout_->packed.bytes, false);
  }
  if (replaced_) visit(replaced_, layout_->wide.bytes, true);
  for (const PageRef& page : kept_) visit(page, (layout_->lossless ? layout_->wide : layout_->packed).bytes, false);
}

template <class Visit>
void PageTable::for_each_prepared_page(std::int64_t length, Visit&& visit) const {
  const std::int64_t open = length / kPageTokens;
  for (std::int64_t page = open; page < std::ssize(slots_); ++page) {
    const PageSlot& slot = slots_[static_cast<std::size_t>(page)];
    const bool was_there = page == open && length % kPageTokens != 0;
    if (slot.wide && (!was_there || replaced_)) visit(slot.wide);
    if (slot.packed) visit(slot.packed);
  }
}

}  // namespace quire
