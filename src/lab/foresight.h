// The bound for every policy (Belady's): evicts what is asked for again last. It knows the future
// because it was given the whole trace. Blocks' keys are the trace's ids.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/eviction/candidates.h"
#include "cache/eviction/policy.h"
#include "lab/trace_file.h"

namespace quire {

class Foresight final : public EvictionPolicy {
 public:
  explicit Foresight(const Trace& trace);

  // The uses that follow are those of request `number`.
  void begin_request(std::size_t number) { now_ = number; }

  void inserted(BlockId block, BlockId parent, std::uint64_t key) override;
  void used(BlockId block) override;
  void removed(BlockId block, BlockId parent) override;
  void may_leave(BlockId block) override;
  void must_stay(BlockId block) override;
  std::optional<BlockId> victim() override;

 private:
  struct Block {
    std::uint64_t key = 0;
    std::size_t next_use = 0;
  };
  Block& at(BlockId block) { return blocks_[static_cast<std::size_t>(block)]; }
  std::size_t next_use(std::uint64_t key);

  std::size_t now_ = 0;
  std::vector<std::size_t> uses_;          // requests that ask for id 0, in order, then for id 1 ...
  std::vector<std::size_t> first_, next_;  // [ids + 1] where those of an id begin; [ids] the first not over yet
  std::vector<Block> blocks_;              // by id in the index
  Candidates<std::size_t> candidates_;     // by next use
};

}  // namespace quire
