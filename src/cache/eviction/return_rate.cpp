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
#include <compare>
#include <deque>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/eviction/candidates.h"
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
    candidates_.add(block, at(block).past.standing());
    if (offers_made_ == clock_) offer(at(block).past.standing(), block, /*first_of_bucket=*/false);
  }
  void must_stay(BlockId block) override { candidates_.remove(block); }

  // Blocks of one class and bucket rank alike, and ranks change only with a use. So the oldest of each
  // bucket is looked up once, and a burst of evictions goes on from there.
  std::optional<BlockId> victim() override {
    if (offers_made_ != clock_) make_offers();
    while (!offers_.empty()) {
      const Offer best = offers_.front();
      if (candidates_.contains(best.block) && at(best.block).past.standing() == best.standing) return best.block;
      std::ranges::pop_heap(offers_, std::greater{});
      offers_.pop_back();
      if (!best.first_of_bucket) continue;
      const auto& order = candidates_.order();
      const auto next = order.upper_bound({best.standing, best.block});
      const auto bucket = [&](const Standing& s) { return std::pair(s.first, age_bucket(clock_ - s.second)); };
      if (next == order.end() || bucket(next->first) != bucket(best.standing)) continue;
      offer(next->first, next->second, /*first_of_bucket=*/true);
    }
    return std::nullopt;
  }

 private:
  using Standing = std::pair<int, std::uint64_t>;  // class, last use

  struct Past {
    std::uint64_t last_use = 0;
    std::uint32_t uses = 0;
    int class_ = kTip;

    Standing standing() const { return {class_, last_use}; }
  };
  struct Block {
    Past past;
    std::uint64_t key = 0;
  };

  struct Offer {  // the lowest is taken
    double rank;
    Standing standing;
    BlockId block;
    bool first_of_bucket;  // others of its class and bucket follow it
    auto operator<=>(const Offer&) const = default;
  };

  void offer(const Standing& standing, BlockId block, bool first_of_bucket) {
    const int bucket = age_bucket(clock_ - standing.second);
    offers_.push_back({table(standing.first).rank[static_cast<std::size_t>(bucket)], standing, block, first_of_bucket});
    std::ranges::push_heap(offers_, std::greater{});
  }

  void make_offers() {
    offers_made_ = clock_;
    offers_.clear();
    const auto& order = candidates_.order();
    for (auto oldest = order.begin(); oldest != order.end();) {
      const auto [class_, last_use] = oldest->first;
      offer(oldest->first, oldest->second, /*first_of_bucket=*/true);
      const std::uint64_t younger = clock_ - youngest_in(age_bucket(clock_ - last_use)) + 1;
      oldest = order.lower_bound({{class_, younger}, kNoBlock});
    }
  }

  void touch(BlockId block) {
    ++clock_;
    Past& past = at(block).past;
    if (past.uses > 0) table(past.class_).returned[static_cast<std::size_t>(age_bucket(clock_ - past.last_use))] += 1;
    past.last_use = clock_;
    ++past.uses;
    past.class_ = class_of(past.uses);
    candidates_.update(block, past.standing());
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
    at(block).past.class_ = class_;
    candidates_.update(block, at(block).past.standing());
  }

  Block& at(BlockId block) { return blocks_[static_cast<std::size_t>(block)]; }
  ReturnTable& table(int class_) { return tables_[static_cast<std::size_t>(class_)]; }

  std::uint64_t clock_ = 0, era_began_ = 0;
  std::size_t present_ = 0;
  std::vector<Block> blocks_;  // by id
  std::array<ReturnTable, kClasses> tables_;
  Candidates<Standing> candidates_;
  std::uint64_t offers_made_ = ~std::uint64_t{0};                   // at that time
  std::vector<Offer> offers_;                                       // a heap
  std::unordered_map<std::uint64_t, Past> left_;                    // by key
  std::deque<std::pair<std::uint64_t, std::uint64_t>> order_left_;  // (key, last use)
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_return_rate() { return std::make_unique<ReturnRate>(); }

}  // namespace quire
