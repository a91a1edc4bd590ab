// S3-FIFO (Yang et al., SOSP 2023): three queues and a counter, no order by use. New blocks enter a
// small queue, a tenth of the cache; those asked for again before they reach its end go on to the
// main queue, the others leave. The main queue gives a block another round for each use. Names of
// blocks that left the small queue are remembered, as many as the main queue holds: one that returns
// enters the main queue at once. Here only blocks without followers can leave, and a block takes the
// place of its follower when that one goes.
#include <algorithm>
#include <deque>
#include <unordered_set>
#include <vector>

#include "cache/eviction/candidates.h"
#include "cache/eviction/policy.h"

namespace quire {
namespace {

constexpr std::size_t kSmallPart = 10;  // one in so many blocks
constexpr int kMostUses = 3;
constexpr int kUsesToStay = 2;

class S3Fifo final : public EvictionPolicy {
 public:
  void inserted(BlockId block, BlockId, std::uint64_t key) override {
    if (block >= std::ssize(blocks_)) blocks_.resize(static_cast<std::size_t>(block) + 1);
    Block& b = at(block);
    b = {};
    b.key = key;
    b.queue = left_.erase(key) > 0 ? kMain : kSmall;
    b.place = ++clock_;
    ++size_[b.queue];
  }

  void used(BlockId block) override { at(block).uses = std::min(at(block).uses + 1, kMostUses); }

  void removed(BlockId block, BlockId parent) override {
    const Block& b = at(block);
    --size_[b.queue];
    if (parent != kNoBlock && at(parent).queue == b.queue) at(parent).place = std::max(at(parent).place, b.place);
    if (b.queue != kSmall || !left_.insert(b.key).second) return;
    order_left_.push_back(b.key);
    for (; order_left_.size() > std::max<std::size_t>(size_[kMain], 1); order_left_.pop_front()) {
      left_.erase(order_left_.front());
    }
  }

  void may_leave(BlockId block) override { candidates_[at(block).queue].add(block, at(block).place); }
  void must_stay(BlockId block) override { candidates_[at(block).queue].remove(block); }

  std::optional<BlockId> victim() override {
    while (true) {
      const auto &small = candidates_[kSmall].order(), &main = candidates_[kMain].order();
      if (small.empty() && main.empty()) return std::nullopt;
      const bool small_is_full = size_[kSmall] > (size_[kSmall] + size_[kMain]) / kSmallPart;
      const bool from_small = main.empty() || (small_is_full && !small.empty());
      const BlockId oldest = (from_small ? small : main).begin()->second;
      Block& b = at(oldest);
      if (b.uses < (from_small ? kUsesToStay : 1)) return oldest;
      must_stay(oldest);
      --size_[b.queue];
      b.uses = from_small ? 0 : b.uses - 1;
      b.queue = kMain;
      b.place = ++clock_;
      ++size_[kMain];
      may_leave(oldest);
    }
  }

 private:
  enum : int { kSmall, kMain, kQueues };
  struct Block {
    std::uint64_t key = 0, place = 0;  // place: larger is younger
    int queue = kSmall;
    int uses = 0;  // since it entered its queue, at most kMostUses
  };
  Block& at(BlockId block) { return blocks_[static_cast<std::size_t>(block)]; }

  std::uint64_t clock_ = 0;
  std::vector<Block> blocks_;  // by id
  std::size_t size_[kQueues] = {};
  Candidates<std::uint64_t> candidates_[kQueues];  // by place
  std::unordered_set<std::uint64_t> left_;
  std::deque<std::uint64_t> order_left_;  // oldest first; those that came back are still in it
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_s3fifo() { return std::make_unique<S3Fifo>(); }

}  // namespace quire
