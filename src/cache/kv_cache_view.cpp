// What the cache holds, for people who look.

#include <algorithm>
#include <unordered_map>

#include "cache/kv_cache.h"
#include "core/hex.h"

namespace quire {

KvCache::Found KvCache::find(std::span<const TokenId> tokens, const SequenceOptions& options) const {
  Found found;
  if (prefixes_ == nullptr || tokens.empty()) return found;
  const std::int64_t shareable = shareable_tokens(options.visible);
  const auto most = static_cast<std::size_t>(std::min(shareable, std::ssize(tokens) - 1) + 1);
  const PrefixPages::Found pages = prefixes_->find(root_for(options.salt), tokens.first(most));
  found.tokens = pages.tokens;
  found.evicted = pages.evicted;
  found.shares_no_more = pages.tokens >= shareable;
  return found;
}

CacheView KvCache::view() const {
  using State = CacheView::State;
  CacheView view;
  std::unordered_map<const std::byte*, CacheView::Page> held;
  for (const auto& [id, sequence] : sequences_) {
    CacheView::Sequence& seen = view.sequences.emplace_back();
    seen.id = id;
    seen.tokens = sequence.length();
    for (const PageTable& table : sequence.tables) {
      table.for_each_page(sequence.length(), [&, owner = id, length = sequence.length()](
                                                 const PageRef& page, std::int64_t bytes, bool open) {
        CacheView::Page& at = held[page.data()];
        if (at.sequences.empty() || at.sequences.back() != owner) at.sequences.push_back(owner);
        at.state = at.sequences.size() > 1 ? State::shared : open ? State::open : State::sealed;
        at.tokens = std::max(at.tokens, open ? length % kPageTokens : kPageTokens);
        seen.bytes += static_cast<std::uint64_t>(bytes);
      });
    }
  }
  // By now it is known who shares what.
  for (std::size_t i = 0; const auto& [id, sequence] : sequences_) {
    for (const PageTable& table : sequence.tables) {
      table.for_each_page(sequence.length(), [&](const PageRef& page, std::int64_t bytes, bool) {
        if (held.at(page.data()).state == State::shared) {
          view.sequences[i].shared_bytes += static_cast<std::uint64_t>(bytes);
        }
      });
    }
    ++i;
  }
  if (prefixes_ != nullptr) {
    for (const PageRef& page : prefixes_->pages()) {
      if (!page) continue;
      CacheView::Page& at = held[page.data()];
      at.named = true;
      if (!at.sequences.empty()) continue;
      at.state = State::cached;
      at.tokens = kPageTokens;
    }
    const auto now = IndexClock::now();
    std::unordered_map<BlockId, std::string> tenants;
    for (const PrefixRun& run : prefixes_->runs()) {
      std::string& tenant = tenants[run.first];
      if (run.parent != kNoBlock) {
        tenant = tenants[run.parent];
      } else {
        tenant = to_hex(std::span(run.root).first(4));
      }
      view.prefixes.push_back({run.first, run.parent == kNoBlock ? -1 : std::int64_t{run.parent}, tenant,
                               run.blocks * kPageTokens, run.uses,
                               std::chrono::duration<double>(now - run.last_use).count(), run.pinned});
    }
  }
  for (const PageUse& use : pool_->pages()) {
    CacheView::Page& page = view.pages.emplace_back();
    if (const auto found = held.find(use.data); found != held.end()) {
      page = std::move(found->second);
    } else if (use.holders > 0) {
      page.state = State::open;  // made ready for a step that is computed now
    }
    page.bytes = use.bytes;
  }
  return view;
}

}  // namespace quire
