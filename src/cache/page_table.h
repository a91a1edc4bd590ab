// One sequence's pages in one layer group: which page holds which positions, in which state.
//
//   slot:    0        1        2        3
//           [wide  ] [packed] [packed] [wide, open]        formats that are encoded, one sink page
//           [wide  ] [wide  ] [wide  ] [wide, open]        formats that are not
//
// A page is open while it fills and sealed when it is full. Sealed pages never change, so tables may
// share them. An open page may be shared too (fork): whoever writes to it first copies it.
#pragma once

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
  explicit PageTable(const KvGroupLayout& layout) : layout_(&layout) {}

  // Pages to be had before positions [length, length + count) can be written, encoded where they
  // complete a page, and read.
  PageNeed need(std::int64_t length, std::int64_t count) const;
  // Takes exactly those pages from the ends of the two lists. A page that had to be copied first is
  // appended to `copies`; its old self stays referenced by `replaced` until the copy is done.
  void extend(std::int64_t length, std::int64_t count, std::vector<PageRef>& wide, std::vector<PageRef>& packed,
              std::vector<PageCopy>& copies, std::vector<PageRef>& replaced);
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

  PageSlot& slot(std::int64_t page) { return slots_[static_cast<std::size_t>(page)]; }
  // For prefix reuse: page number size() of the table, sealed, shared with whoever else holds it.
  void push_sealed(PageSlot slot) { slots_.push_back(std::move(slot)); }

  // Tokens kept by eviction: `kept_tokens` slots per head in these pages; positions below `first`
  // are gone from the table.
  void replace_front(std::int64_t first, std::vector<PageRef> kept, std::int64_t kept_tokens);

  const KvGroupLayout& layout() const { return *layout_; }
  std::span<const PageSlot> slots() const { return slots_; }
  std::span<const PageRef> kept() const { return kept_; }
  std::int64_t kept_tokens() const { return kept_tokens_; }
  std::int64_t first_position() const { return first_position_; }

  // Valid until the table changes.
  KvTable view() const;

 private:
  bool writes_to_open(std::int64_t length) const;
  std::int64_t first_kept_page(std::int64_t length) const;

  const KvGroupLayout* layout_;
  std::vector<PageSlot> slots_;  // [page]; empty where nothing is kept any more
  std::vector<PageRef> kept_;
  std::int64_t kept_tokens_ = 0;
  std::int64_t first_position_ = 0;
  // The same as plain pointers, rebuilt by view().
  mutable std::vector<KvTableEntry> entries_;
  mutable std::vector<const std::byte*> kept_entries_;
};

}  // namespace quire
