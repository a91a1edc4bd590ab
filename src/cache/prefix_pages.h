// Sealed pages by name: what sequences share, and what stays after they are gone.
//
// The index (prefix_index.h) knows names; here are the pages behind them. Each layer group has up to
// two kinds of page in the index: as queries far behind read it (encoded, or 16-bit where sealing is a
// rename or the page is one of the first), and the 16-bit twin of a recent page.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/page_table.h"
#include "cache/prefix_index.h"

namespace quire {

// A sequence's way through the index.
struct NamedBlocks {
  ChainNamer chain;
  std::vector<BlockId> ids;
  std::vector<BlockName> names;

  explicit NamedBlocks(const Digest& root) : chain(root) {}
  BlockId tip() const { return ids.empty() ? kNoBlock : ids.back(); }
};

// A page of a prefix, as the index knows it.
struct PagePlace {
  std::int64_t block;
  int group;          // of the index
  std::size_t table;  // group of layers
  bool wide;          // which of the two pages in that table's slot
  std::int64_t bytes;
};

class PrefixPages {
 public:
  // Whether pages of such groups can be named: a group that keeps everything carries the chain.
  static bool possible(std::span<const KvGroupLayout> layouts);
  // The pages that going on after `blocks` blocks takes, block by block.
  static std::vector<PagePlace> places(std::span<const KvGroupLayout> layouts, std::int64_t blocks);

  PrefixPages(std::span<const KvGroupLayout> layouts, std::unique_ptr<EvictionPolicy> policy);

  // Fills empty tables with the longest prefix of `tokens` that is there and pins its last block.
  // Returns how many tokens that is; at least one is left.
  std::int64_t attach(NamedBlocks& blocks, std::span<const TokenId> tokens, std::vector<PageTable>& tables);
  // The next block of a sequence is complete: names the pages that all later queries need. A page that
  // is already there replaces the sequence's own. False: the block cannot be named.
  bool add(NamedBlocks& blocks, std::span<const TokenId> tokens, std::vector<PageTable>& tables);
  // The sequence may be continued here: names the pages only that needs (windows, twins).
  void add_checkpoint(const NamedBlocks& blocks, std::span<const TokenId> tokens, std::vector<PageTable>& tables);
  // The sequence now has `count` blocks, or is gone.
  void truncate(NamedBlocks& blocks, const Digest& root, std::span<const TokenId> tokens, std::int64_t count);
  void pin(const NamedBlocks& blocks);
  // What evict() would let go of in the end, if nobody pinned the tips of `unpinned`. One entry for each holder.
  void dispensable(std::span<const BlockId> unpinned, std::vector<const PageRef*>& pages) const;
  // One block leaves, the one the policy can spare. False: none may.
  bool evict();

  // Whether the block after those of a sequence, with these tokens, was there and was evicted.
  bool was_evicted(const NamedBlocks& blocks, std::span<const TokenId> tokens) const;

  // How many of `tokens` attach() would find, and whether the next block was there once. Nothing changes.
  struct Found {
    std::int64_t tokens;
    bool evicted;
  };
  Found find(const Digest& root, std::span<const TokenId> tokens) const;

  const IndexStats& stats() const { return index_.stats(); }
  std::vector<PrefixRun> runs() const { return index_.runs(); }
  std::span<const PageRef> pages() const { return pages_; }  // empty where nothing is held

 private:
  enum class Kind { far, twin };
  struct Entry {  // one group of the index
    std::size_t table;
    Kind kind;
    GroupNeed need;
    bool checkpoints_only() const { return need.kind != GroupNeed::Kind::full; }
  };
  static std::vector<Entry> entries(std::span<const KvGroupLayout> layouts);
  static PageRef& page_of(PageSlot& slot, Kind kind, const KvGroupLayout& layout, std::int64_t page);
  // Of the block after a hit, tokens that agree: usable where pages are not encoded.
  std::int64_t partial_tokens(const PrefixHit& hit, std::span<const TokenId> tokens) const;
  void keep(BlockId block, int group, PageRef& page);
  PageRef& stored(BlockId block, int group);

  std::vector<KvGroupLayout> layouts_;
  std::vector<Entry> entries_;  // [groups of the index]
  PrefixIndex index_;
  std::vector<PageRef> pages_;  // [block, group of the index]
};

}  // namespace quire
