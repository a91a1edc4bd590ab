// Which prefixes the cache holds. Blocks of equal token count form trees, one per root of the
// naming chain (page_name.h); in each block every layer group has a page that is absent, promised
// or valid. The index knows names and tokens, no bytes: the owner keeps its pages in an array by
// (block, group) and lets go of those that evict() returns. For one thread.
//
//   root A: [The cat sat] - [on the mat.] - [It purred.]     n = 3 blocks
//                        \- [on my keys.]                    pin the tip: the whole chain stays
//   root B: [The cat sat]                                    another salt: never shared
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "cache/block_id.h"
#include "cache/eviction/policy.h"
#include "cache/page_name.h"
#include "cache/resume.h"
#include "core/hash.h"
#include "core/ids.h"
#include "kv/format.h"

namespace quire {

enum class PageState : std::uint8_t {
  absent,
  promised,  // somebody computes or fetches it; others may wait
  valid,
};

struct PageId {
  BlockId block;
  int group;
  friend bool operator==(const PageId&, const PageId&) = default;
};

using RequestId = std::uint64_t;

struct PrefixHit {
  std::int64_t tokens = 0;      // to go on after: whole blocks
  std::vector<BlockId> blocks;  // those blocks, from the start; the pages of needed(group, blocks.size()) are there
  // A block that could follow and begins with the next `partial_tokens` tokens; it holds others after them.
  BlockId partial = kNoBlock;
  int partial_tokens = 0;
};

using IndexClock = std::chrono::steady_clock;

// Blocks that follow one another, used alike and without a fork.
struct PrefixRun {
  BlockId first;
  BlockId parent;  // the first of the run before; kNoBlock at the start
  Digest root;     // of the chain, where it starts
  std::int64_t blocks;
  std::uint64_t uses;
  IndexClock::time_point last_use;
  bool pinned;
};

struct IndexStats {
  std::uint64_t lookups = 0, asked_tokens = 0, hit_tokens = 0;  // of requests that were admitted
  std::uint64_t inserted = 0, adopted = 0, evicted = 0;         // pages
};

class PrefixIndex {
 public:
  PrefixIndex(std::vector<GroupNeed> groups, std::unique_ptr<EvictionPolicy> policy,
              int block_tokens = static_cast<int>(kPageTokens));

  // The longest prefix after which every group can go on; compared token by token, and at least
  // one token is left to compute. `chain` stands at its start.
  PrefixHit lookup(const ChainNamer& chain, std::span<const TokenId> tokens) const;
  // The same where the blocks have their names already. [at most tokens / block_tokens]
  PrefixHit lookup(std::span<const BlockName> names, std::span<const TokenId> tokens) const;
  // A request goes ahead with this hit, found since the last eviction: counts it, and pins its last block.
  void admit(const PrefixHit& hit, std::size_t asked_tokens);

  // A page is computed. `name` is that of the block after `parent` (kNoBlock at the start).
  struct Insertion {
    BlockId block;                   // kNoBlock: other tokens have this name, so the page cannot be shared
    bool was_valid;                  // use the page that is there and free yours
    std::vector<RequestId> waiting;  // for this page, until now
  };
  Insertion insert(BlockId parent, const BlockName& name, std::span<const TokenId> tokens, int group);

  // Before computing a page. absent: it is now promised by `who`; promised: `who` waits in line.
  struct Claim {
    BlockId block;
    PageState found;
  };
  Claim claim(BlockId parent, const BlockName& name, std::span<const TokenId> tokens, int group, RequestId who);
  // `who` neither computes nor waits any more. Returns whose promise it is now, if it changed hands.
  std::optional<RequestId> abandon(PageId page, RequestId who);

  // A pinned block stays, and with it all before it.
  void pin(BlockId block);
  void unpin(BlockId block);

  // Blocks that would leave if all left that may, and if nobody pinned each of `unpinned` once.
  std::vector<BlockId> dispensable(std::span<const BlockId> unpinned) const;
  // Up to `blocks` blocks leave, tips of chains only, each with the pages of all groups.
  std::vector<PageId> evict(std::size_t blocks = 1);
  // Whether a block of this name was evicted, as far back as is remembered.
  bool was_evicted(const Digest& chain) const;
  // One page leaves: it is damaged, or its group has no use for it.
  void drop(PageId page);

  int groups() const { return static_cast<int>(groups_.size()); }
  int block_tokens() const { return block_tokens_; }
  BlockRange needed(int group, std::int64_t blocks) const;
  PageState state(PageId page) const;
  std::size_t blocks() const { return by_chain_.size(); }
  std::vector<PrefixRun> runs() const;  // parents first
  const IndexStats& stats() const { return stats_; }

 private:
  struct Block {
    BlockName name;
    BlockId parent = kNoBlock;
    int children = 0, pins = 0, valid = 0, promised = 0;
    std::uint32_t uses = 1;  // by requests that began so, the one that computed it included
    IndexClock::time_point last_use = {};
    bool may_leave = false;
    bool live = false;  // else its id is unused
  };
  struct Promise {
    RequestId owner;
    std::deque<RequestId> waiting;
  };

  Block& at(BlockId block) { return blocks_[static_cast<std::size_t>(block)]; }
  const Block& at(BlockId block) const { return blocks_[static_cast<std::size_t>(block)]; }
  std::span<const TokenId> tokens_of(BlockId block) const;
  std::size_t slot(PageId page) const;
  bool is_live(BlockId block) const { return block >= 0 && block < std::ssize(blocks_) && at(block).live; }
  bool has_page(BlockId block, int group) const { return state({block, group}) == PageState::valid; }

  bool in_token_order(BlockId a, BlockId b) const;
  BlockId find(BlockId parent, const Digest& chain, std::span<const TokenId> tokens) const;
  bool continues(BlockId parent, BlockId block, std::span<const TokenId> tokens) const;
  BlockId find_or_add(BlockId parent, const BlockName& name, std::span<const TokenId> tokens);
  template <class Namer>
  PrefixHit lookup_with(Namer namer, std::size_t most, std::span<const TokenId> tokens) const;
  void find_partial(PrefixHit& hit, const Digest& before, std::span<const TokenId> rest) const;
  bool usable_after(const PrefixHit& hit, BlockId block) const;
  void set_state(PageId page, PageState state);
  void settle(BlockId block);
  void remove(BlockId block);
  void remember_evicted(const Digest& chain);

  std::vector<GroupNeed> groups_;
  std::unique_ptr<EvictionPolicy> policy_;
  int block_tokens_;

  std::vector<Block> blocks_;
  std::vector<TokenId> tokens_;    // [blocks, block_tokens]
  std::vector<PageState> states_;  // [blocks, groups]
  std::vector<BlockId> unused_ids_;
  // Entries come and go with every block: the pool keeps their memory.
  std::unique_ptr<std::pmr::memory_resource> pool_ = std::make_unique<std::pmr::unsynchronized_pool_resource>();
  DigestMap<BlockId> by_chain_{pool_.get()};
  DigestMap<std::vector<BlockId>> followers_{pool_.get()};  // by BlockName::before, in order of tokens
  std::unordered_map<std::size_t, Promise> promises_;       // by slot
  std::vector<Digest>
      evicted_names_;  // so that misses can be explained: by name, a later one takes the place of one before
  IndexStats stats_;
};

}  // namespace quire
