#include "cache/prefix_index.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/planted.h"

namespace quire {

PrefixIndex::PrefixIndex(std::vector<GroupNeed> groups, std::unique_ptr<EvictionPolicy> policy, int block_tokens)
    : groups_(std::move(groups)), policy_(std::move(policy)), block_tokens_(block_tokens) {
  QUIRE_ASSERT(!groups_.empty() && policy_ != nullptr && block_tokens_ >= 1, "an index needs groups and a policy");
}

std::span<const TokenId> PrefixIndex::tokens_of(BlockId block) const {
  return std::span(tokens_).subspan(static_cast<std::size_t>(block) * static_cast<std::size_t>(block_tokens_),
                                    static_cast<std::size_t>(block_tokens_));
}

std::size_t PrefixIndex::slot(PageId page) const {
  QUIRE_ASSERT(page.block >= 0 && page.block < std::ssize(blocks_) && page.group >= 0 && page.group < groups(),
               "no such page");
  return static_cast<std::size_t>(page.block) * groups_.size() + static_cast<std::size_t>(page.group);
}

PageState PrefixIndex::state(PageId page) const { return states_[slot(page)]; }

BlockRange PrefixIndex::needed(int group, std::int64_t blocks) const {
  return needed_blocks(groups_[static_cast<std::size_t>(group)], blocks, block_tokens_);
}

bool PrefixIndex::in_token_order(BlockId a, BlockId b) const {
  return std::ranges::lexicographical_compare(tokens_of(a), tokens_of(b));
}

// A name alone proves nothing: the block must continue the same parent with the same tokens.
BlockId PrefixIndex::find(BlockId parent, const Digest& chain, std::span<const TokenId> tokens) const {
  const auto found = by_chain_.find(chain);
  if (found == by_chain_.end()) return kNoBlock;
  return continues(parent, found->second, tokens) ? found->second : kNoBlock;
}

bool PrefixIndex::continues(BlockId parent, BlockId block, std::span<const TokenId> tokens) const {
  return at(block).parent == parent && std::ranges::equal(tokens_of(block), tokens);
}

namespace {

// Names that are known already, told as ChainNamer tells them.
class KnownNames {
 public:
  explicit KnownNames(std::span<const BlockName> names) : names_(names) {}
  BlockName next(std::span<const TokenId>) { return names_[next_++]; }
  Digest before_next() const {
    if (names_.empty()) return {};
    return next_ < names_.size() ? names_[next_].before : names_.back().chain;
  }

 private:
  std::span<const BlockName> names_;
  std::size_t next_ = 0;
};

}  // namespace

PrefixHit PrefixIndex::lookup(const ChainNamer& chain, std::span<const TokenId> tokens) const {
  QUIRE_ASSERT(chain.blocks() == 0, "a lookup begins at the start of the chain");
  return lookup_with(chain, tokens.size(), tokens);
}

PrefixHit PrefixIndex::lookup(std::span<const BlockName> names, std::span<const TokenId> tokens) const {
  return lookup_with(KnownNames(names), names.size(), tokens);
}

template <class Namer>
PrefixHit PrefixIndex::lookup_with(Namer namer, std::size_t most, std::span<const TokenId> tokens) const {
  const auto size = static_cast<std::size_t>(block_tokens_);
  most = tokens.empty() ? 0 : std::min(most, (tokens.size() - 1) / size);

  struct Presence {
    std::int64_t leading = 0;  // valid pages from the start without a gap
    std::int64_t running = 0;  // valid pages up to here without a gap
  };
  std::vector<Presence> presence(groups_.size());
  const auto can_resume_after = [&](std::int64_t count) {
    for (int g = 0; g < groups(); ++g) {
      const BlockRange range = needed(g, count);
      const Presence& has = presence[static_cast<std::size_t>(g)];
      if (range.first == 0 ? has.leading < range.last : has.running < range.last - range.first) return false;
    }
    return true;
  };

  PrefixHit hit;
  std::size_t resume = 0;
  Digest before = namer.before_next();
  for (BlockId parent = kNoBlock; hit.blocks.size() < most;) {
    const auto block_tokens = tokens.subspan(hit.blocks.size() * size, size);
    const BlockId block = find(parent, namer.next(block_tokens).chain, block_tokens);
    if (block == kNoBlock) break;
    hit.blocks.push_back(block);
    const auto count = std::ssize(hit.blocks);
    for (int g = 0; g < groups(); ++g) {
      Presence& has = presence[static_cast<std::size_t>(g)];
      has.running = has_page(block, g) ? has.running + 1 : 0;
      if (has.running == count) has.leading = count;
    }
    if (can_resume_after(count)) {
      resume = hit.blocks.size();
      before = namer.before_next();
    }
    parent = block;
  }
  hit.blocks.resize(resume);
  hit.tokens = static_cast<std::int64_t>(resume * size);
  if (tokens.size() > resume * size + 1) find_partial(hit, before, tokens.subspan(resume * size));
  return hit;
}

bool PrefixIndex::usable_after(const PrefixHit& hit, BlockId block) const {
  const std::int64_t blocks = std::ssize(hit.blocks);
  if (at(block).parent != (blocks == 0 ? kNoBlock : hit.blocks.back())) return false;
  for (int g = 0; g < groups(); ++g) {
    // A window that sees nothing of the block still wants the page, to write in.
    const bool wanted =
        needed(g, blocks + 1).holds(blocks) || groups_[static_cast<std::size_t>(g)].kind == GroupNeed::Kind::window;
    if (wanted && !has_page(block, g)) return false;
  }
  return true;
}

// The followers of one history lie in order of their tokens, so those that share most with `rest`
// are the neighbours of the place where it would stand.
void PrefixIndex::find_partial(PrefixHit& hit, const Digest& before, std::span<const TokenId> rest) const {
  const auto found = followers_.find(before);
  if (found == followers_.end()) return;
  const std::vector<BlockId>& followers = found->second;
  const auto common = [&](BlockId block) {
    const std::span<const TokenId> tokens = tokens_of(block).first(
        std::min(static_cast<std::size_t>(block_tokens_), rest.size() - 1));  // one is left to compute
    return static_cast<int>(std::mismatch(tokens.begin(), tokens.end(), rest.begin()).first - tokens.begin());
  };
  const auto take_first_usable = [&](auto from, auto to) {
    for (; from != to; ++from) {
      const int tokens = common(*from);
      if (tokens <= hit.partial_tokens) return;
      if (!usable_after(hit, *from)) continue;
      hit.partial = *from;
      hit.partial_tokens = tokens;
      return;
    }
  };
  const auto place = std::lower_bound(followers.begin(), followers.end(), rest, [&](BlockId block, const auto& tokens) {
    return std::ranges::lexicographical_compare(tokens_of(block), tokens);
  });
  take_first_usable(place, followers.end());
  take_first_usable(std::make_reverse_iterator(place), followers.rend());
}

void PrefixIndex::admit(const PrefixHit& hit, std::size_t asked_tokens) {
  ++stats_.lookups;
  stats_.asked_tokens += asked_tokens;
  stats_.hit_tokens += static_cast<std::uint64_t>(hit.tokens);
  const auto now = IndexClock::now();
  for (std::size_t i = hit.blocks.size(); i-- > 0;) {
    policy_->used(hit.blocks[i]);
    ++at(hit.blocks[i]).uses;
    at(hit.blocks[i]).last_use = now;
  }
  if (!hit.blocks.empty()) pin(hit.blocks.back());
}

BlockId PrefixIndex::find_or_add(BlockId parent, const BlockName& name, std::span<const TokenId> tokens) {
  QUIRE_ASSERT(std::ssize(tokens) == block_tokens_, "a block of another length");
  QUIRE_ASSERT(parent == kNoBlock || is_live(parent), "a block after one that is gone");
  const auto [place, is_new] = by_chain_.try_emplace(name.chain, kNoBlock);
  if (!is_new) return continues(parent, place->second, tokens) ? place->second : kNoBlock;
  BlockId block;
  if (unused_ids_.empty()) {
    block = static_cast<BlockId>(blocks_.size());
    blocks_.emplace_back();
    tokens_.resize(tokens_.size() + static_cast<std::size_t>(block_tokens_));
    states_.resize(states_.size() + groups_.size(), PageState::absent);
  } else {
    block = unused_ids_.back();
    unused_ids_.pop_back();
  }
  at(block) = {.name = name, .parent = parent, .last_use = IndexClock::now(), .live = true};
  std::ranges::copy(tokens, tokens_.begin() + std::ptrdiff_t{block} * block_tokens_);
  place->second = block;
  std::vector<BlockId>& followers = followers_[name.before];
  followers.insert(std::lower_bound(followers.begin(), followers.end(), block,
                                    [&](BlockId a, BlockId b) { return in_token_order(a, b); }),
                   block);
  policy_->inserted(block, parent, first_word(name.chain));
  if (parent != kNoBlock) {
    ++at(parent).children;
    settle(parent);
  }
  return block;
}

PrefixIndex::Insertion PrefixIndex::insert(BlockId parent, const BlockName& name, std::span<const TokenId> tokens,
                                           int group) {
  const BlockId block = find_or_add(parent, name, tokens);
  if (block == kNoBlock) return {kNoBlock, false, {}};
  const PageId page{block, group};
  if (state(page) == PageState::valid) {
    ++stats_.adopted;
    return {block, true, {}};
  }
  Insertion result{block, false, {}};
  if (const auto promise = promises_.find(slot(page)); promise != promises_.end()) {
    result.waiting.assign(promise->second.waiting.begin(), promise->second.waiting.end());
    promises_.erase(promise);
  }
  set_state(page, PageState::valid);
  settle(block);
  ++stats_.inserted;
  return result;
}

PrefixIndex::Claim PrefixIndex::claim(BlockId parent, const BlockName& name, std::span<const TokenId> tokens, int group,
                                      RequestId who) {
  const BlockId block = find_or_add(parent, name, tokens);
  if (block == kNoBlock) return {kNoBlock, PageState::absent};
  const PageId page{block, group};
  const PageState found = state(page);
  if (found == PageState::absent) {
    promises_.emplace(slot(page), Promise{who, {}});
    set_state(page, PageState::promised);
    settle(block);
  } else if (found == PageState::promised) {
    promises_.at(slot(page)).waiting.push_back(who);
  }
  return {block, found};
}

std::optional<RequestId> PrefixIndex::abandon(PageId page, RequestId who) {
  const auto found = promises_.find(slot(page));
  QUIRE_ASSERT(found != promises_.end(), "abandoning a page that is not promised");
  Promise& promise = found->second;
  if (promise.owner != who) {
    std::erase(promise.waiting, who);
    return std::nullopt;
  }
  if (promise.waiting.empty()) {
    promises_.erase(found);
    set_state(page, PageState::absent);
    settle(page.block);
    return std::nullopt;
  }
  promise.owner = promise.waiting.front();
  promise.waiting.pop_front();
  return promise.owner;
}

void PrefixIndex::pin(BlockId block) {
  ++at(block).pins;
  settle(block);
}

void PrefixIndex::unpin(BlockId block) {
  QUIRE_ASSERT(at(block).pins > 0, "unpinning a block that is not pinned");
  --at(block).pins;
  settle(block);
}

void PrefixIndex::set_state(PageId page, PageState state) {
  PageState& stored = states_[slot(page)];
  Block& block = at(page.block);
  const auto count = [&](int change) {
    if (stored == PageState::valid) block.valid += change;
    if (stored == PageState::promised) block.promised += change;
  };
  count(-1);
  stored = state;
  count(+1);
}

// After any change: tells the policy whether the block may leave, and removes what holds nothing.
void PrefixIndex::settle(BlockId block) {
  while (block != kNoBlock) {
    Block& settled = at(block);
    const bool childless = settled.children == 0 || planted(Bug::parent_leaves_first);
    const bool is_free = childless && settled.pins == 0 && settled.promised == 0;
    const bool may_leave = is_free && settled.valid > 0;
    if (may_leave != settled.may_leave) {
      settled.may_leave = may_leave;
      may_leave ? policy_->may_leave(block) : policy_->must_stay(block);
    }
    if (!is_free || settled.valid > 0) return;
    const BlockId parent = settled.parent;
    remove(block);
    block = parent;
  }
}

void PrefixIndex::remove(BlockId block) {
  Block& removed = at(block);
  QUIRE_ASSERT(removed.children == 0, "a block leaves before one that follows it");
  policy_->removed(block, removed.parent);
  by_chain_.erase(removed.name.chain);
  const auto siblings = followers_.find(removed.name.before);
  if (siblings->second.size() == 1) {
    followers_.erase(siblings);
  } else {
    const auto place = std::lower_bound(siblings->second.begin(), siblings->second.end(), block,
                                        [&](BlockId a, BlockId b) { return in_token_order(a, b); });
    siblings->second.erase(std::find(place, siblings->second.end(), block));
  }
  if (removed.parent != kNoBlock) --at(removed.parent).children;
  removed.live = false;
  unused_ids_.push_back(block);
}

std::vector<BlockId> PrefixIndex::dispensable(std::span<const BlockId> unpinned) const {
  std::vector<int> pins(blocks_.size());
  for (const auto& [chain, block] : by_chain_) {
    pins[static_cast<std::size_t>(block)] = at(block).pins + at(block).promised;
  }
  for (const BlockId block : unpinned) --pins[static_cast<std::size_t>(block)];
  std::vector<bool> stays(blocks_.size());
  for (const auto& [chain, tip] : by_chain_) {
    if (pins[static_cast<std::size_t>(tip)] == 0) continue;
    for (BlockId b = tip; b != kNoBlock && !stays[static_cast<std::size_t>(b)]; b = at(b).parent) {
      stays[static_cast<std::size_t>(b)] = true;
    }
  }
  std::vector<BlockId> leaving;
  for (const auto& [chain, block] : by_chain_) {
    if (!stays[static_cast<std::size_t>(block)]) leaving.push_back(block);
  }
  return leaving;
}

std::vector<PageId> PrefixIndex::evict(std::size_t blocks) {
  std::vector<PageId> left;
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::optional<BlockId> victim = policy_->victim();
    if (!victim) break;
    QUIRE_ASSERT(at(*victim).may_leave, "the policy chose a block that must stay");
    remember_evicted(at(*victim).name.chain);
    for (int g = 0; g < groups(); ++g) {
      if (!has_page(*victim, g)) continue;
      left.push_back({*victim, g});
      set_state({*victim, g}, PageState::absent);
    }
    settle(*victim);
  }
  stats_.evicted += left.size();
  return left;
}

void PrefixIndex::remember_evicted(const Digest& chain) {
  constexpr std::size_t kRemembered = 32768;
  if (evicted_names_.empty()) evicted_names_.resize(kRemembered);
  evicted_names_[first_word(chain) % kRemembered] = chain;
}

bool PrefixIndex::was_evicted(const Digest& chain) const {
  return !evicted_names_.empty() && evicted_names_[first_word(chain) % evicted_names_.size()] == chain;
}

void PrefixIndex::drop(PageId page) {
  QUIRE_ASSERT(state(page) == PageState::valid, "dropping a page that is not there");
  set_state(page, PageState::absent);
  settle(page.block);
}

}  // namespace quire
