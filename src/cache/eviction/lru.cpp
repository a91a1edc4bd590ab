// Least recently used first.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "cache/eviction/policy.h"

namespace quire {
namespace {

class Lru final : public EvictionPolicy {
 public:
  void inserted(BlockId block, BlockId, std::uint64_t) override {
    if (block >= std::ssize(last_use_)) last_use_.resize(static_cast<std::size_t>(block) + 1);
    last_use(block) = ++clock_;
  }
  void used(BlockId block) override {
    const bool may_leave_now = candidates_.erase({last_use(block), block}) > 0;
    last_use(block) = ++clock_;
    if (may_leave_now) may_leave(block);
  }
  void removed(BlockId block, BlockId parent) override {
    if (parent != kNoBlock) last_use(parent) = std::max(last_use(parent), last_use(block));
  }
  void may_leave(BlockId block) override { candidates_.emplace(last_use(block), block); }
  void must_stay(BlockId block) override { candidates_.erase({last_use(block), block}); }
  std::optional<BlockId> victim() override {
    if (candidates_.empty()) return std::nullopt;
    return candidates_.begin()->second;
  }

 private:
  std::uint64_t& last_use(BlockId block) { return last_use_[static_cast<std::size_t>(block)]; }

  std::uint64_t clock_ = 0;
  std::vector<std::uint64_t> last_use_;  // by block
  std::set<std::pair<std::uint64_t, BlockId>> candidates_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_lru() { return std::make_unique<Lru>(); }

}  // namespace quire
