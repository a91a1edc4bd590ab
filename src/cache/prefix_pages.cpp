#include "cache/prefix_pages.h"

#include <algorithm>

#include "core/check.h"

namespace quire {
namespace {

std::span<const TokenId> block_tokens(std::span<const TokenId> tokens, std::int64_t block) {
  return tokens.subspan(static_cast<std::size_t>(block * kPageTokens), kPageTokens);
}

}  // namespace

bool PrefixPages::possible(std::span<const KvGroupLayout> layouts) {
  return std::ranges::any_of(layouts, [](const KvGroupLayout& layout) { return layout.visible.window == 0; });
}

std::vector<PrefixPages::Entry> PrefixPages::entries(std::span<const KvGroupLayout> layouts) {
  std::vector<Entry> entries;
  for (std::size_t table = 0; table < layouts.size(); ++table) {
    const KvGroupLayout& layout = layouts[table];
    const std::int64_t window = layout.visible.window;
    entries.push_back({table, Kind::far, {window > 0 ? GroupNeed::Kind::window : GroupNeed::Kind::full, window}});
    if (layout.lossless || layout.recent_pages == 0) continue;
    // Twins that no query sees are gone.
    const std::int64_t seen = (window + kPageTokens - 2) / kPageTokens;
    const std::int64_t pages = window > 0 ? std::min(layout.recent_pages, seen) : layout.recent_pages;
    entries.push_back({table, Kind::twin, {GroupNeed::Kind::recent, pages * kPageTokens}});
  }
  return entries;
}

PrefixPages::PrefixPages(std::span<const KvGroupLayout> layouts, std::unique_ptr<EvictionPolicy> policy)
    : layouts_(layouts.begin(), layouts.end()),
      entries_(entries(layouts)),
      index_(
          [this] {
            std::vector<GroupNeed> needs;
            for (const Entry& entry : entries_) needs.push_back(entry.need);
            return needs;
          }(),
          std::move(policy)) {}

std::vector<PagePlace> PrefixPages::places(std::span<const KvGroupLayout> layouts, std::int64_t blocks) {
  const std::vector<Entry> groups = entries(layouts);
  std::vector<PagePlace> places;
  for (std::int64_t block = 0; block < blocks; ++block) {
    for (int group = 0; group < std::ssize(groups); ++group) {
      const Entry& entry = groups[static_cast<std::size_t>(group)];
      if (!needed_blocks(entry.need, blocks, kPageTokens).holds(block)) continue;
      const KvGroupLayout& layout = layouts[entry.table];
      const bool wide = entry.kind == Kind::twin || !layout.packs(block);
      places.push_back({block, group, entry.table, wide, (wide ? layout.wide : layout.packed).bytes});
    }
  }
  return places;
}

PageRef& PrefixPages::page_of(PageSlot& slot, Kind kind, const KvGroupLayout& layout, std::int64_t page) {
  if (kind == Kind::twin) return slot.wide;
  return layout.packs(page) ? slot.packed : slot.wide;
}

PageRef& PrefixPages::stored(BlockId block, int group) {
  const std::size_t at = static_cast<std::size_t>(block) * entries_.size() + static_cast<std::size_t>(group);
  if (at >= pages_.size()) pages_.resize((static_cast<std::size_t>(block) + 1) * entries_.size());
  return pages_[at];
}

std::int64_t PrefixPages::partial_tokens(const PrefixHit& hit, std::span<const TokenId> tokens) const {
  const auto left = static_cast<std::int64_t>(tokens.size()) - hit.tokens;
  const bool lossless = std::ranges::all_of(layouts_, &KvGroupLayout::lossless);
  if (!lossless || hit.partial == kNoBlock) return 0;
  return std::max<std::int64_t>(std::min<std::int64_t>(hit.partial_tokens, left - 1), 0);
}

std::int64_t PrefixPages::attach(NamedBlocks& blocks, std::span<const TokenId> tokens, std::vector<PageTable>& tables) {
  const PrefixHit hit = index_.lookup(blocks.chain, tokens);
  index_.admit(hit, tokens.size());
  const auto count = std::ssize(hit.blocks);
  for (std::size_t table = 0; table < tables.size(); ++table) {
    for (std::int64_t page = 0; page < count; ++page) {
      PageSlot slot;
      for (int group = 0; group < index_.groups(); ++group) {
        const Entry& entry = entries_[static_cast<std::size_t>(group)];
        if (entry.table != table || !index_.needed(group, count).holds(page)) continue;
        page_of(slot, entry.kind, layouts_[table], page) = stored(hit.blocks[static_cast<std::size_t>(page)], group);
      }
      tables[table].push_sealed(std::move(slot));
    }
  }
  blocks.ids = hit.blocks;
  for (std::int64_t block = 0; block < count; ++block) {
    blocks.names.push_back(blocks.chain.next(block_tokens(tokens, block)));
  }

  // The next block begins with the same tokens as one that is there: where pages are not encoded, that
  // one is shared as an open page, and the first write copies the tokens that agree.
  const std::int64_t partial = partial_tokens(hit, tokens);
  if (partial == 0) return hit.tokens;
  for (int group = 0; group < index_.groups(); ++group) {
    const Entry& entry = entries_[static_cast<std::size_t>(group)];
    if (entry.kind == Kind::far) tables[entry.table].push_sealed({stored(hit.partial, group), {}});
  }
  return hit.tokens + partial;
}

PrefixPages::Found PrefixPages::find(const Digest& root, std::span<const TokenId> tokens) const {
  NamedBlocks blocks(root);
  const PrefixHit hit = index_.lookup(blocks.chain, tokens);
  for (std::int64_t block = 0; block < std::ssize(hit.blocks); ++block) {
    (void)blocks.chain.next(block_tokens(tokens, block));
  }
  blocks.ids = hit.blocks;
  return {hit.tokens + partial_tokens(hit, tokens), was_evicted(blocks, tokens)};
}

// The page that is already there is adopted, and the sequence's own let go.
void PrefixPages::keep(BlockId block, int group, PageRef& page) {
  PageRef& there = stored(block, group);
  if (there) {
    page = there;
  } else {
    there = page;
  }
}

bool PrefixPages::add(NamedBlocks& blocks, std::span<const TokenId> tokens, std::vector<PageTable>& tables) {
  const std::int64_t page = std::ssize(blocks.ids);
  const BlockName name = blocks.chain.next(block_tokens(tokens, page));
  BlockId block = kNoBlock;
  for (int group = 0; group < index_.groups(); ++group) {
    const Entry& entry = entries_[static_cast<std::size_t>(group)];
    if (entry.checkpoints_only()) continue;
    block = index_.insert(blocks.tip(), name, block_tokens(tokens, page), group).block;
    if (block == kNoBlock) return false;
    keep(block, group, page_of(tables[entry.table].slot(page), entry.kind, layouts_[entry.table], page));
  }
  index_.pin(block);
  if (blocks.tip() != kNoBlock) index_.unpin(blocks.tip());
  blocks.ids.push_back(block);
  blocks.names.push_back(name);
  return true;
}

void PrefixPages::add_checkpoint(const NamedBlocks& blocks, std::span<const TokenId> tokens,
                                 std::vector<PageTable>& tables) {
  const std::int64_t count = std::ssize(blocks.ids);
  for (int group = 0; group < index_.groups(); ++group) {
    const Entry& entry = entries_[static_cast<std::size_t>(group)];
    if (!entry.checkpoints_only()) continue;
    const BlockRange range = index_.needed(group, count);
    for (std::int64_t page = range.first; page < range.last; ++page) {
      PageRef& own = page_of(tables[entry.table].slot(page), entry.kind, layouts_[entry.table], page);
      if (!own) continue;
      const auto at = static_cast<std::size_t>(page);
      const BlockId parent = page == 0 ? kNoBlock : blocks.ids[at - 1];
      const BlockId block = index_.insert(parent, blocks.names[at], block_tokens(tokens, page), group).block;
      QUIRE_ASSERT(block == blocks.ids[at], "a named block is where its name says");
      keep(block, group, own);
    }
  }
}

void PrefixPages::truncate(NamedBlocks& blocks, const Digest& root, std::span<const TokenId> tokens,
                           std::int64_t count) {
  if (count >= std::ssize(blocks.ids)) return;
  const BlockId old_tip = blocks.tip();
  blocks.ids.resize(static_cast<std::size_t>(count));
  blocks.names.resize(static_cast<std::size_t>(count));
  if (blocks.tip() != kNoBlock) index_.pin(blocks.tip());
  index_.unpin(old_tip);
  blocks.chain = ChainNamer(root);
  for (std::int64_t block = 0; block < count; ++block) (void)blocks.chain.next(block_tokens(tokens, block));
}

void PrefixPages::pin(const NamedBlocks& blocks) {
  if (blocks.tip() != kNoBlock) index_.pin(blocks.tip());
}

void PrefixPages::dispensable(std::span<const BlockId> unpinned, std::vector<const PageRef*>& pages) const {
  for (const BlockId block : index_.dispensable(unpinned)) {
    for (const PageRef& page :
         std::span(pages_).subspan(static_cast<std::size_t>(block) * entries_.size(), entries_.size())) {
      if (page) pages.push_back(&page);
    }
  }
}

bool PrefixPages::was_evicted(const NamedBlocks& blocks, std::span<const TokenId> tokens) const {
  const std::int64_t next = std::ssize(blocks.ids);
  if ((next + 1) * kPageTokens > std::ssize(tokens)) return false;
  ChainNamer chain = blocks.chain;
  return index_.was_evicted(chain.next(block_tokens(tokens, next)).chain);
}

bool PrefixPages::evict() {
  const std::vector<PageId> left = index_.evict(1);
  for (const PageId& page : left) stored(page.block, page.group) = {};
  return !left.empty();
}

}  // namespace quire
