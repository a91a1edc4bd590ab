// Keeps what promises the most hits for the time it will lie here.
//
// A chat comes back when its user has read and typed: hardly ever within seconds, often within
// minutes, rarely after. So the chance of a hit first rises with a block's age and then falls, and
// the least recently used block is not the one to drop: in a small cache LRU drops every
// conversation just before its next turn. This policy learns instead, from the traffic it sees,
// how many blocks return at which age, apart for blocks used once, twice, and so on. Time is
// counted in blocks touched.
//
// The rank of a block of a given class and age is the best bargain it still offers:
//
//              blocks that return between now and then
//   max over   ---------------------------------------
//    then      time all blocks are held from now to then
//
// and the lowest rank leaves first. One-off traffic ranks low at every age, which makes the policy
// resist scans; a prompt that everybody shares ranks high as long as it is asked for, and ages by
// itself when it is not. Blocks that left are remembered for a while (some 80 bytes each), or a small
// cache could never learn that what it drops comes back.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <deque>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/eviction/policy.h"

namespace quire {
namespace {

// 0: used once and never continued; 1: used once, continued; then twice, 3-4 times, 5-8 times ...
constexpr int kClasses = 8;
constexpr int kTip = 0, kOnce = 1;
// Buckets of age, two to a doubling: 0, 1, 2, 3, 4-5, 6-7, 8-11, 12-15 ... The last holds all that are older.
constexpr int kAges = 64;

// What every class is taken for before it is known: so many blocks, of which this part returns, the
// likelier the younger they are. That is LRU.
constexpr double kPriorBlocks = 10, kPriorReturns = 0.3;
// Ranks follow the traffic in eras: so many touches, or a part of as many as there are blocks. With
// each, the past loses some of its weight.
constexpr std::uint64_t kShortestEra = 512, kErasPerTurnover = 16;
constexpr double kWeightOfPast = 0.99;
// Of those that left, at least so many are remembered, and at least this multiple of those that are there.
constexpr std::size_t kLeastRemembered = 65536, kRememberedPerBlock = 4;

int age_bucket(std::uint64_t age) {
  if (age < 2) return static_cast<int>(age);
  const int octave = static_cast<int>(std::bit_width(age)) - 1;
  const int upper_half = static_cast<int>(age >> (octave - 1) & 1);
  return std::min(2 * octave + upper_half, kAges - 1);
}
std::uint64_t youngest_in(int bucket) {
  if (bucket < 2) return static_cast<std::uint64_t>(bucket);
  return (std::uint64_t{2} + static_cast<std::uint64_t>(bucket % 2)) << (bucket / 2 - 1);
}
// Returns fall off as 1 / (age + 1).
std::array<double, kAges> make_prior_returns() {
  const auto up_to = [](int bucket) { return std::log(1 + static_cast<double>(youngest_in(bucket))); };
  std::array<double, kAges> returns;
  for (int b = 0; b < kAges; ++b) {
    returns[static_cast<std::size_t>(b)] = kPriorBlocks * kPriorReturns * (up_to(b + 1) - up_to(b)) / up_to(kAges);
  }
  return returns;
}
const std::array<double, kAges> kPriorReturned = make_prior_returns();

int class_of(std::uint32_t uses) {
  return uses == 1 ? kTip : std::min(1 + static_cast<int>(std::bit_width(uses - 1)), kClasses - 1);
}

// How the blocks of one class return.
struct ReturnTable {
  double touched = kPriorBlocks;
  std::array<double, kAges> returned = kPriorReturned;
  std::array<double, kAges> rank;

  ReturnTable() { compute_ranks(); }

  void compute_ranks() {
    std::array<double, kAges> waiting_time;  // summed over the blocks not back yet
    double waiting = touched;
    for (int b = 0; b < kAges; ++b) {
      const auto bucket = static_cast<std::size_t>(b);
      const double left = std::max(waiting - returned[bucket], 0.0);
      waiting_time[bucket] = (waiting + left) / 2 * static_cast<double>(youngest_in(b + 1) - youngest_in(b));
      waiting = left;
    }
    for (std::size_t now = 0; now < kAges; ++now) {
      double hits = 0, held = 1e-9;
      rank[now] = 0;
      for (std::size_t then = now; then < kAges; ++then) {
        hits += returned[then];
        held += waiting_time[then];
        rank[now] = std::max(rank[now], hits / held);
      }
    }
  }

  void forget_some() {
    const auto fade = [](double& value, double prior) { value = prior + (value - prior) * kWeightOfPast; };
    fade(touched, kPriorBlocks);
    for (std::size_t b = 0; b < kAges; ++b) fade(returned[b], kPriorReturned[b]);
  }
};

class ReturnRate final : public EvictionPolicy {
 public:
  void inserted(BlockId block, BlockId parent, std::uint64_t key) override {
    if (block >= std::ssize(blocks_)) blocks_.resize(static_cast<std::size_t>(block) + 1);
    ++present_;
    at(block) = {};
    at(block).key = key;
    if (const auto known = left_.find(key); known != left_.end()) {
      at(block).past = known->second;
      left_.erase(known);
    }
    touch(block);
    if (parent != kNoBlock && at(parent).past.class_ == kTip) {
      table(kTip).touched = std::max(table(kTip).touched - 1, 0.0);
      move_to_class(parent, kOnce);
      table(kOnce).touched += 1;
    }
  }

  void used(BlockId block) override { touch(block); }

  void removed(BlockId block, BlockId parent) override {
    --present_;
    Past& past = at(block).past;
    if (parent != kNoBlock) at(parent).past.last_use = std::max(at(parent).past.last_use, past.last_use);
    left_[at(block).key] = past;
    order_left_.emplace_back(at(block).key, past.last_use);
    for (; order_left_.size() > std::max(kLeastRemembered, kRememberedPerBlock * present_); order_left_.pop_front()) {
      const auto [key, last_use] = order_left_.front();
      const auto oldest = left_.find(key);
      if (oldest != left_.end() && oldest->second.last_use == last_use) left_.erase(oldest);  // else it came back
    }
  }

  void may_leave(BlockId block) override {
    at(block).candidate = true;
    candidates(block).emplace(at(block).past.last_use, block);
  }
  void must_stay(BlockId block) override {
    at(block).candidate = false;
    candidates(block).erase({at(block).past.last_use, block});
  }

  std::optional<BlockId> victim() override {
    std::optional<BlockId> lowest;
    double lowest_rank = 0;
    for (int c = 0; c < kClasses; ++c) {
      const auto& of_class = candidates_[static_cast<std::size_t>(c)];
      // From the oldest on, one look per bucket of age that is not empty.
      for (auto oldest = of_class.begin(); oldest != of_class.end();) {
        const int bucket = age_bucket(clock_ - oldest->first);
        const double rank = table(c).rank[static_cast<std::size_t>(bucket)];
        if (!lowest || rank < lowest_rank) {
          lowest = oldest->second;
          lowest_rank = rank;
        }
        const std::uint64_t younger = clock_ - youngest_in(bucket) + 1;
        oldest = of_class.lower_bound({younger, kNoBlock});
      }
    }
    return lowest;
  }

 private:
  struct Past {
    std::uint64_t last_use = 0;
    std::uint32_t uses = 0;
    int class_ = kTip;
  };
  struct Block {
    Past past;
    std::uint64_t key = 0;
    bool candidate = false;
  };

  void touch(BlockId block) {
    ++clock_;
    Past& past = at(block).past;
    if (past.uses > 0) table(past.class_).returned[static_cast<std::size_t>(age_bucket(clock_ - past.last_use))] += 1;
    const bool was_candidate = at(block).candidate;
    if (was_candidate) must_stay(block);
    past.last_use = clock_;
    ++past.uses;
    past.class_ = class_of(past.uses);
    if (was_candidate) may_leave(block);
    table(past.class_).touched += 1;
    if (clock_ - era_began_ >= std::max<std::uint64_t>(kShortestEra, present_ / kErasPerTurnover)) {
      era_began_ = clock_;
      for (ReturnTable& t : tables_) {
        t.compute_ranks();
        t.forget_some();
      }
    }
  }

  void move_to_class(BlockId block, int class_) {
    const bool was_candidate = at(block).candidate;
    if (was_candidate) must_stay(block);
    at(block).past.class_ = class_;
    if (was_candidate) may_leave(block);
  }

  Block& at(BlockId block) { return blocks_[static_cast<std::size_t>(block)]; }
  ReturnTable& table(int class_) { return tables_[static_cast<std::size_t>(class_)]; }
  std::set<std::pair<std::uint64_t, BlockId>>& candidates(BlockId block) {
    return candidates_[static_cast<std::size_t>(at(block).past.class_)];
  }

  std::uint64_t clock_ = 0, era_began_ = 0;
  std::size_t present_ = 0;
  std::vector<Block> blocks_;  // by id
  std::array<ReturnTable, kClasses> tables_;
  std::array<std::set<std::pair<std::uint64_t, BlockId>>, kClasses> candidates_;  // (last use, block)
  std::unordered_map<std::uint64_t, Past> left_;                                  // by key
  std::deque<std::pair<std::uint64_t, std::uint64_t>> order_left_;                // (key, last use)
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_return_rate() { return std::make_unique<ReturnRate>(); }

}  // namespace quire
