// What the cache holds, counted.
#include <set>

#include "cache/kv_cache.h"

namespace quire {

std::uint64_t KvCache::held_bytes(SequenceId id) const {
  std::int64_t bytes = 0;
  for (const PageTable& table : at(id).tables) {
    table.for_each_page(at(id).length(), [&](const PageRef&, std::int64_t size, bool) { bytes += size; });
  }
  return static_cast<std::uint64_t>(bytes);
}

std::vector<const PageRef*> KvCache::held_pages() const {
  std::vector<const PageRef*> pages;
  for (const auto& [id, sequence] : sequences_) {
    for (const PageTable& table : sequence.tables) {
      table.for_each_page(sequence.length(), [&](const PageRef& page, std::int64_t, bool) { pages.push_back(&page); });
    }
  }
  if (prefixes_ == nullptr) return pages;
  for (const PageRef& page : prefixes_->pages()) {
    if (page) pages.push_back(&page);
  }
  return pages;
}

CacheStats KvCache::stats() const {
  CacheStats stats;
  stats.counters = counters_;
  stats.sequences = std::ssize(sequences_);
  std::set<const std::byte*> seen;
  double used = 0;
  for (const auto& entry : sequences_) {
    const Sequence& sequence = entry.second;
    stats.tokens += sequence.length();
    for (const PageTable& table : sequence.tables) {
      table.for_each_page(sequence.length(), [&](const PageRef& page, std::int64_t size, bool open) {
        if (!seen.insert(page.data()).second) return;
        const auto bytes = static_cast<std::uint64_t>(size);
        ++(open ? stats.open_pages : stats.sealed_pages);
        (open ? stats.open_bytes : stats.sealed_bytes) += bytes;
        stats.shared_pages += page.use_count() > 1;
        const std::int64_t filled = open ? sequence.length() % kPageTokens : kPageTokens;
        used += static_cast<double>(size) * static_cast<double>(filled) / kPageTokens;
      });
    }
  }
  const PoolCounters use = pool_->counters();
  for (const auto& pages : use.classes) stats.free_pages += static_cast<std::int64_t>(pages.pages_free);
  stats.reserved_bytes = use.reserved_bytes;
  stats.budget_bytes = pool_->budget_bytes();
  stats.cached_bytes = use.used_bytes - stats.held_bytes();
  if (stats.sequences > 0)
    stats.average_length = static_cast<double>(stats.tokens) / static_cast<double>(stats.sequences);
  stats.hit_rate = counters_.hit_rate();
  if (stats.reserved_bytes > 0) stats.efficiency = used / static_cast<double>(stats.reserved_bytes);
  return stats;
}

}  // namespace quire
