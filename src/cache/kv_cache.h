// The cache: many sequences, keyed by 64-bit ids, over one pool of pages.
//
// One step of a sequence is three calls. prepare() reserves every page the step will write and says
// what has to be copied; the caller computes keys and values into the views (kernels) or appends
// them (append(), one layer at a time); commit() makes the tokens part of the sequence. The
// cache decides where bytes live and never touches a kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/page_pool.h"
#include "cache/page_table.h"
#include "cache/policy/policy.h"
#include "cache/prefix_pages.h"
#include "cache/stats.h"
#include "cache/strategy.h"
#include "core/ids.h"
#include "kv/layout.h"
#include "quire/cache_view.h"
#include "quire/result.h"

namespace quire {

using SequenceId = std::uint64_t;

struct CacheOptions {
  std::vector<KvGroupSpec> groups;
  std::vector<KvLayerRef> layer_map;  // [model layers]; empty: the groups' layers in order
  std::uint64_t budget_bytes = 0;
  // Everything else that decides what a token's keys and values are: weights, kernels, RoPE overrides.
  Digest fingerprint{};
  CacheStrategy strategy;
  bool share_prefixes = true;  // name sealed pages, and find them again
  std::string eviction = "";   // which named page leaves first; empty: the default
  bool poison = false;         // fresh pages are filled with NaN: for tests
};

struct SequenceOptions {
  std::string_view salt = {};  // pages are shared only among sequences of the same salt
  // What a policy lets it see; where the model's own window is the narrower, that holds. Pages that the policy does
  // not affect are shared whatever the policies; later ones stay its own.
  KvVisibility visible = {};
};

struct StepWant {
  SequenceId id;
  std::int64_t tokens;
};

struct StepPlan {
  struct Copy {
    std::int64_t group;
    PageCopy page;
  };
  std::vector<Copy> copies;                  // to be done first, with copy_tokens(); valid as long
  std::vector<std::vector<KvTable>> tables;  // [want][group], valid until the sequence changes
};

// What a plan asks to be done before anything is written.
void make_copies(const StepPlan& plan, std::span<const KvGroupLayout> layouts);

// Keys and values of one layer, as the cache gives them back.
struct KvTokens {
  std::vector<float> keys;    // [tokens, kv_heads, key_dim]
  std::vector<float> values;  // [tokens, kv_heads, value_dim]
};

// A sealed page and where it belongs.
struct PageBytes {
  PagePlace place;
  std::span<const std::byte> bytes;  // [place.bytes]
};

class KvCache {
 public:
  static Result<std::unique_ptr<KvCache>> create(const CacheOptions& options);

  // An empty sequence.
  Result<void> open(SequenceId id, const SequenceOptions& options = {});
  // Fills an empty sequence with the longest beginning of `tokens` whose pages are there, leaving at
  // least one token to compute. Returns its length.
  std::int64_t reuse(SequenceId id, std::span<const TokenId> tokens);
  // Why it was not longer: what follows of `tokens` was there and was evicted; the sequence's policy shares no
  // more; neither: nothing that begins so was computed.
  bool was_evicted(SequenceId id, std::span<const TokenId> tokens) const;
  bool shares_no_more(SequenceId id) const { return at(id).length() >= at(id).shareable; }
  // What reuse() would find for a new sequence, and why not more. Nothing changes.
  struct Found {
    std::int64_t tokens = 0;
    bool evicted = false, shares_no_more = false;
  };
  Found find(std::span<const TokenId> tokens, const SequenceOptions& options = {}) const;
  // Somebody may want to go on from here: keeps what that takes.
  void checkpoint(SequenceId id);
  bool contains(SequenceId id) const { return sequences_.contains(id); }
  std::int64_t length(SequenceId id) const;
  std::vector<std::int64_t> lengths(std::span<const SequenceId> ids) const;
  std::span<const TokenId> tokens(SequenceId id) const;

  // Succeeds for all sequences or changes nothing.
  Result<StepPlan> prepare(std::span<const StepWant> wants);
  // Whether prepare() succeeds, counting what it would evict. Takes no longer than a look at every cached page. A
  // page is counted as to be copied even where evicting would make it the sequence's own.
  bool could_prepare(std::span<const StepWant> wants) const;
  // What prepare() would take from the system, where it need not evict.
  std::uint64_t fresh_bytes(std::span<const StepWant> wants) const;
  // `tokens` are the first of those prepared; what was prepared beyond them is undone. With no token the whole
  // step is, and its copies need not have been made.
  void commit(SequenceId id, std::span<const TokenId> tokens);

  // For callers without kernels: prepare, copy, write `count` tokens of a layer at the end.
  //   keys, values: [count, kv_heads, dim]
  Result<void> append(SequenceId id, std::int64_t model_layer, std::span<const float> keys,
                      std::span<const float> values, std::int64_t count);
  // After every layer was appended: encodes what became full, then commits.
  void advance(SequenceId id, std::span<const TokenId> tokens);
  // Positions [start, start + length) as they are stored, turned back where the format rotates.
  Result<KvTokens> read(SequenceId id, std::int64_t model_layer, std::int64_t start, std::int64_t length) const;

  // `to` becomes a copy of `from` that shares all its pages.
  Result<void> fork(SequenceId from, SequenceId to);
  // Shortens to `length`, or to less where what is needed to go on from there is gone (encoded pages,
  // pages outside a window): the length reached, from which to compute again.
  Result<std::int64_t> rollback(SequenceId id, std::int64_t length);
  // Forgets whole pages below `position`, and with them what eviction kept of the tokens before.
  Result<void> drop_front(SequenceId id, std::int64_t position);

  // Pages leave for a file, and come from one. Nothing is shared: neither can be done.
  bool shares_prefixes() const { return prefixes_ != nullptr; }
  // A page that PrefixPages::places() names of a sequence that has whole blocks, all taken over by reuse().
  std::vector<std::byte> sealed_page(SequenceId id, const PagePlace& place) const;
  // The next block of such a sequence, with the pages that places() names of it: all of it, or nothing has changed.
  Result<void> append_sealed(SequenceId id, std::span<const TokenId> tokens, std::span<const PageBytes> pages);

  // Nobody uses the sequence now, but somebody may come back to it: it stays while there is room.
  void park(SequenceId id);
  void release(SequenceId id);
  void clear();          // every sequence
  void forget_unused();  // every page that no sequence needs to go on

  // Token eviction. sums: [model layers, kv_heads, cached tokens], of the tokens just committed and all
  // before them; what layers with a window got is not looked at.
  void add_scores(SequenceId id, std::span<const float> sums);
  RetentionState retention_state(SequenceId id, std::int64_t prompt) const;
  Result<void> evict(SequenceId id, const Eviction& eviction, const RetentionPolicy& policy);

  std::span<const KvGroupLayout> layouts() const { return layouts_; }
  std::span<const KvLayerRef> layer_map() const { return layer_map_; }
  // Of all that decides a page's bytes besides the tokens: caches that differ here can exchange nothing.
  const Digest& identity() const { return root_; }
  std::uint64_t bytes_per_token() const;  // in sealed pages
  // Of one sequence, as the allocator will count it.
  std::uint64_t estimate_bytes(std::int64_t tokens, const KvVisibility& visible = {}) const;
  std::uint64_t budget_bytes() const { return pool_->budget_bytes(); }
  std::uint64_t held_bytes(SequenceId id) const;
  CacheStats stats() const;
  CacheView view() const;
  // For audits: what sequences and the index hold, one entry for each holder, against the allocator's books.
  std::vector<const PageRef*> held_pages() const;
  PoolCounters pool_counters() const { return pool_->counters(); }

 private:
  struct Gathering;
  struct Sequence {
    std::vector<TokenId> tokens;
    std::vector<PageTable> tables;  // [group]
    std::int64_t prepared = 0;      // tokens beyond, for which pages are there
    bool appending = false;         // they were prepared, and pages copied, by append()
    std::uint64_t parked_at = 0;    // 0: in use
    Digest root{};
    std::int64_t shareable = 0;        // tokens from the start that its policy does not affect
    std::optional<NamedBlocks> named;  // nothing once tokens were let go: such pages have no name
    // [group][layer, head][cached token]: attention it got, where a policy asks.
    std::vector<std::vector<std::vector<float>>> scores;
    std::int64_t length() const { return std::ssize(tokens); }
    void fit_scores();  // to the tokens that are cached
  };

  KvCache(const CacheOptions& options, std::vector<KvGroupLayout> layouts, std::unique_ptr<PagePool> pool,
          std::unique_ptr<EvictionPolicy> eviction);
  int wide_class(std::size_t group) const { return static_cast<int>(2 * group); }
  int packed_class(std::size_t group) const { return static_cast<int>(2 * group + 1); }
  Digest root_for(std::string_view salt) const;
  std::int64_t shareable_tokens(const KvVisibility& visible) const;
  Sequence& at(SequenceId id);
  const Sequence& at(SequenceId id) const;
  void undo_prepared(Sequence& sequence);
  const KvPageLayout& layout_of(const PagePlace& place) const;
  std::vector<PageWant> pages_for_step(std::span<const StepWant> wants) const;
  // What could make room for a step: one entry for each holder that would let go, if nobody pinned `unpinned` once.
  std::vector<const PageRef*> dispensable(std::span<const StepWant> wants, BlockId unpinned = kNoBlock) const;
  // Lets go of what nobody uses, the least useful first, until it is enough or nothing is left.
  void make_room(const std::function<bool()>& enough);
  Result<std::vector<PageRef>> take_pages(std::span<const PageWant> wants);
  bool release_oldest_parked();
  void relieve_pressure();
  void name_pages(Sequence& sequence);
  void forget_names(Sequence& sequence);
  std::vector<Gathering> gatherings(const Sequence& sequence, const Eviction& eviction) const;
  // The pages that cannot be filled where they are, or nothing has changed.
  Result<std::vector<PageRef>> take_to_gather(Sequence& sequence, std::span<const Gathering> all);
  void evict_group(Sequence& sequence, const Gathering& gathering, const Eviction& eviction,
                   const RetentionPolicy& policy, std::vector<PageRef> pages);

  std::unique_ptr<PagePool> pool_;  // before what holds its pages
  std::vector<KvGroupLayout> layouts_;
  std::vector<KvLayerRef> layer_map_;
  std::map<SequenceId, Sequence> sequences_;
  std::unique_ptr<PrefixPages> prefixes_;  // null where nothing is shared
  Digest root_{};
  CacheStrategy strategy_;
  std::uint64_t clock_ = 0;  // counts parkings
  CacheCounters counters_;
};

}  // namespace quire
