// Least recently used first.
#include <algorithm>
#include <vector>

#include "cache/eviction/candidates.h"
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
    last_use(block) = ++clock_;
    candidates_.update(block, last_use(block));
  }
  void removed(BlockId block, BlockId parent) override {
    if (parent != kNoBlock) last_use(parent) = std::max(last_use(parent), last_use(block));
  }
  void may_leave(BlockId block) override { candidates_.add(block, last_use(block)); }
  void must_stay(BlockId block) override { candidates_.remove(block); }
  std::optional<BlockId> victim() override {
    const auto& order = candidates_.order();
    return order.empty() ? std::nullopt : std::optional(order.begin()->second);
  }

 private:
  std::uint64_t& last_use(BlockId block) { return last_use_[static_cast<std::size_t>(block)]; }

  std::uint64_t clock_ = 0;
  std::vector<std::uint64_t> last_use_;   // by block
  Candidates<std::uint64_t> candidates_;  // by last use
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_lru() { return std::make_unique<Lru>(); }

}  // namespace quire
