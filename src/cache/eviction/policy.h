// What leaves the cache first. The index says what happens and which blocks may leave (no child,
// no pin); a policy only chooses among those. A new policy is a file here and a line in policy.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/block_id.h"
#include "quire/result.h"

namespace quire {

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  // A block is new. `key` stays its own when it leaves and returns under another id.
  virtual void inserted(BlockId block, BlockId parent, std::uint64_t key) = 0;
  // A request found the block; of one request, the deepest block is told first.
  virtual void used(BlockId block) = 0;
  // A block is gone; where it was free to leave, must_stay came first. Whoever used it used its parent.
  virtual void removed(BlockId block, BlockId parent) = 0;

  virtual void may_leave(BlockId block) = 0;
  virtual void must_stay(BlockId block) = 0;

  // The block to evict, of those that may leave; it stays until it is removed.
  virtual std::optional<BlockId> victim() = 0;
};

Result<std::unique_ptr<EvictionPolicy>> make_eviction_policy(std::string_view name);
std::vector<std::string> eviction_policy_names();  // the first is the default

std::unique_ptr<EvictionPolicy> make_lru();
std::unique_ptr<EvictionPolicy> make_return_rate();
std::unique_ptr<EvictionPolicy> make_s3fifo();

}  // namespace quire
