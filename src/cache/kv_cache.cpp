#include "cache/kv_cache.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "core/fail.h"
#include "core/planted.h"

namespace quire {

namespace {

// What is left of a bundle waits for the next page of its kind: that should not be much of a budget, nor much memory.
constexpr std::uint64_t kBundlesInBudget = 64, kMostBundleBytes = std::uint64_t{48} << 20;

}  // namespace

Result<std::unique_ptr<KvCache>> KvCache::create(const CacheOptions& options) {
  if (options.groups.empty()) return fail(Errc::invalid_argument, "[cache] no layer group; give at least one");
  std::vector<KvGroupLayout> layouts;
  PoolOptions pool{options.budget_bytes, {}, options.poison};
  for (const KvGroupSpec& spec : options.groups) {
    QUIRE_TRY(KvGroupLayout layout, make_layout(spec));
    for (KvPageLayout* page : {&layout.wide, &layout.packed}) {
      const bool few = page == &layout.wide && !layout.lossless;  // open, recent and sink pages alone
      if (!few) *page = bundled(*page, std::min(options.budget_bytes / kBundlesInBudget, kMostBundleBytes));
      pool.shapes.emplace_back(static_cast<std::uint64_t>(page->bytes), page->bundle);
    }
    layouts.push_back(layout);
  }
  for (const KvLayerRef& place : options.layer_map) {
    if (place.group < 0 || place.group >= std::ssize(layouts) || place.layer < 0 ||
        place.layer >= layouts[static_cast<std::size_t>(place.group)].layers) {
      return fail(Errc::invalid_argument, "[cache] a model layer is mapped to layer {} of group {}, which is not there",
                  place.layer, place.group);
    }
  }
  QUIRE_TRY(auto pages, PagePool::create(pool));
  QUIRE_TRY(auto eviction,
            make_eviction_policy(options.eviction.empty() ? eviction_policy_names().front() : options.eviction));
  return std::unique_ptr<KvCache>(new KvCache(options, std::move(layouts), std::move(pages), std::move(eviction)));
}

namespace {

// All that decides a page's bytes besides the tokens: two caches that differ in any of it share nothing.
Digest root_digest(const CacheOptions& options) {
  Hasher hasher;
  hasher.update(kPageLayoutVersion);
  hasher.update(std::span<const std::byte>(options.fingerprint));
  for (const KvGroupSpec& spec : options.groups) {
    for (const std::int64_t number : {spec.layers, spec.kv_heads, spec.key_dim, spec.value_dim,
                                      std::int64_t{spec.latent}, static_cast<std::int64_t>(spec.keys),
                                      static_cast<std::int64_t>(spec.values), spec.sink_pages, spec.recent_pages}) {
      hasher.update(static_cast<std::uint64_t>(number));
    }
    hasher.update(spec.visible.window);
  }
  for (const KvLayerRef& place : options.layer_map) {
    hasher.update(static_cast<std::uint64_t>(place.group));
    hasher.update(static_cast<std::uint64_t>(place.layer));
  }
  return hasher.finish();
}

}  // namespace

KvCache::KvCache(const CacheOptions& options, std::vector<KvGroupLayout> layouts, std::unique_ptr<PagePool> pool,
                 std::unique_ptr<EvictionPolicy> eviction)
    : pool_(std::move(pool)),
      layouts_(std::move(layouts)),
      layer_map_(options.layer_map),
      root_(root_digest(options)),
      strategy_(options.strategy) {
  if (options.share_prefixes && PrefixPages::possible(layouts_)) {
    prefixes_ = std::make_unique<PrefixPages>(layouts_, std::move(eviction));
  }
  if (!layer_map_.empty()) return;
  for (std::int64_t group = 0; group < std::ssize(layouts_); ++group) {
    for (std::int64_t layer = 0; layer < layouts_[static_cast<std::size_t>(group)].layers; ++layer) {
      layer_map_.push_back({group, layer});
    }
  }
}

KvCache::Sequence& KvCache::at(SequenceId id) {
  const auto found = sequences_.find(id);
  QUIRE_ASSERT(found != sequences_.end(), "a sequence that is not open");
  return found->second;
}
const KvCache::Sequence& KvCache::at(SequenceId id) const { return const_cast<KvCache*>(this)->at(id); }

void KvCache::Sequence::fit_scores() {
  for (std::size_t group = 0; group < tables.size(); ++group) {
    const std::int64_t cached = tables[group].kept_tokens() + length() - tables[group].first_position();
    for (auto& head : scores[group]) head.resize(static_cast<std::size_t>(cached));
  }
}

Digest KvCache::root_for(std::string_view salt) const {
  Hasher hasher;
  hasher.update(std::span<const std::byte>(root_));
  if (!planted(Bug::salt_not_in_name)) hasher.update(std::as_bytes(std::span(salt)));
  return hasher.finish();
}

std::int64_t KvCache::shareable_tokens(const KvVisibility& visible) const {
  std::int64_t tokens = std::numeric_limits<std::int64_t>::max();
  if (planted(Bug::policy_not_in_name)) return tokens;
  for (const KvGroupLayout& layout : layouts_) {
    tokens = std::min(tokens, unaffected_tokens(layout.visible, visible));
  }
  return tokens;
}

Result<void> KvCache::open(SequenceId id, const SequenceOptions& options) {
  QUIRE_CHECK_OK(check_visibility(options.visible));
  const auto [entry, fresh] = sequences_.try_emplace(id);
  if (!fresh) return fail(Errc::invalid_argument, "[cache] sequence {} is already open", id);
  Sequence& sequence = entry->second;
  for (const KvGroupLayout& layout : layouts_) {
    sequence.tables.emplace_back(layout, narrower(layout.visible, options.visible));
  }
  sequence.shareable = shareable_tokens(options.visible);
  sequence.scores.resize(layouts_.size());
  if (prefixes_ == nullptr) return {};
  sequence.root = root_for(options.salt);
  sequence.named.emplace(sequence.root);
  return {};
}

std::int64_t KvCache::reuse(SequenceId id, std::span<const TokenId> tokens) {
  Sequence& sequence = at(id);
  QUIRE_ASSERT(sequence.length() == 0, "only an empty sequence can take over a prefix");
  undo_prepared(sequence);
  counters_.asked_tokens += tokens.size();
  if (!sequence.named) return 0;
  // One token is always left to compute.
  const auto most = static_cast<std::size_t>(std::min(sequence.shareable, std::ssize(tokens) - 1) + 1);
  const std::int64_t length = prefixes_->attach(*sequence.named, tokens.first(most), sequence.tables);
  counters_.hit_tokens += static_cast<std::uint64_t>(length);
  sequence.tokens.assign(tokens.begin(), tokens.begin() + length);
  return length;
}

bool KvCache::was_evicted(SequenceId id, std::span<const TokenId> tokens) const {
  const Sequence& sequence = at(id);
  return sequence.named && prefixes_->was_evicted(*sequence.named, tokens);
}

void KvCache::checkpoint(SequenceId id) {
  Sequence& sequence = at(id);
  if (sequence.named) prefixes_->add_checkpoint(*sequence.named, sequence.tokens, sequence.tables);
}

void KvCache::name_pages(Sequence& sequence) {
  const std::int64_t pages = std::min(sequence.length(), sequence.shareable) / kPageTokens;
  while (sequence.named && std::ssize(sequence.named->ids) < pages) {
    if (!prefixes_->add(*sequence.named, sequence.tokens, sequence.tables)) forget_names(sequence);
  }
}

void KvCache::forget_names(Sequence& sequence) {
  if (!sequence.named) return;
  prefixes_->truncate(*sequence.named, sequence.root, sequence.tokens, 0);
  sequence.named.reset();
}

std::int64_t KvCache::length(SequenceId id) const { return at(id).length(); }
std::span<const TokenId> KvCache::tokens(SequenceId id) const { return at(id).tokens; }

std::vector<std::int64_t> KvCache::lengths(std::span<const SequenceId> ids) const {
  std::vector<std::int64_t> lengths;
  for (const SequenceId id : ids) lengths.push_back(length(id));
  return lengths;
}

Result<void> KvCache::fork(SequenceId from, SequenceId to) {
  QUIRE_CHECK_OK(open(to));
  Sequence& copy = at(to);
  undo_prepared(at(from));
  copy.tokens = at(from).tokens;
  copy.tables = at(from).tables;
  if (planted(Bug::fork_not_counted)) {
    for (PageTable& table : copy.tables) table.miscount();
  }
  copy.scores = at(from).scores;
  copy.root = at(from).root;
  copy.shareable = at(from).shareable;
  copy.named = at(from).named;
  if (copy.named) prefixes_->pin(*copy.named);
  return {};
}

Result<std::int64_t> KvCache::rollback(SequenceId id, std::int64_t length) {
  Sequence& sequence = at(id);
  if (length < 0) return fail(Errc::invalid_argument, "[rollback] to {}; expected a length of at least 0", length);
  undo_prepared(sequence);
  length = std::min(length, sequence.length());
  if (length == sequence.length()) return length;
  const auto resumable = [&](std::int64_t n) {
    return std::ranges::all_of(sequence.tables, [n](const PageTable& table) { return table.resumable(n); });
  };
  while (length > 0 && !resumable(length)) length = (length - 1) / kPageTokens * kPageTokens;
  for (PageTable& table : sequence.tables) table.truncate(length);
  if (sequence.named) {
    prefixes_->truncate(*sequence.named, sequence.root, sequence.tokens, length / kPageTokens);
  } else if (length == 0 && prefixes_ != nullptr) {
    sequence.named.emplace(sequence.root);
  }
  sequence.tokens.resize(static_cast<std::size_t>(length));
  sequence.fit_scores();
  return length;
}

Result<void> KvCache::drop_front(SequenceId id, std::int64_t position) {
  Sequence& sequence = at(id);
  if (position < 0 || position > sequence.length()) {
    return fail(Errc::invalid_argument, "[drop_front] up to {}; the sequence has {} tokens", position,
                sequence.length());
  }
  undo_prepared(sequence);
  const std::int64_t first = position / kPageTokens * kPageTokens;
  if (first == 0) return {};
  forget_names(sequence);
  for (std::size_t group = 0; group < layouts_.size(); ++group) {
    if (first < sequence.tables[group].first_position()) continue;
    sequence.tables[group].drop_front(position);
    sequence.scores[group].clear();  // they counted from the old front
  }
  return {};
}

void KvCache::park(SequenceId id) {
  undo_prepared(at(id));
  at(id).parked_at = ++clock_;
}

void KvCache::release(SequenceId id) {
  forget_names(at(id));
  sequences_.erase(id);
}

void KvCache::clear() {
  while (!sequences_.empty()) release(sequences_.begin()->first);
}

void KvCache::forget_unused() {
  while (prefixes_ != nullptr && prefixes_->evict()) ++counters_.evicted_pages;
}

std::uint64_t KvCache::bytes_per_token() const {
  std::int64_t bytes = 0;
  for (const KvGroupLayout& layout : layouts_) bytes += layout.packed.bytes;
  return static_cast<std::uint64_t>(bytes / kPageTokens);
}

std::uint64_t KvCache::estimate_bytes(std::int64_t tokens, const KvVisibility& visible) const {
  std::uint64_t bytes = 0;
  for (const KvGroupLayout& layout : layouts_) bytes += sequence_bytes(layout, tokens, visible);
  return bytes;
}

}  // namespace quire
