// The tree of prefixes as people look at it: runs of blocks instead of single ones.
#include "cache/prefix_index.h"

namespace quire {

std::vector<PrefixRun> PrefixIndex::runs() const {
  const auto joins_parent = [this](BlockId block) {
    const BlockId parent = at(block).parent;
    return parent != kNoBlock && at(parent).children == 1 && at(parent).uses == at(block).uses;
  };
  std::vector<std::vector<BlockId>> followers(blocks_.size());
  std::vector<BlockId> starts;  // of runs to come
  for (BlockId block = 0; block < std::ssize(blocks_); ++block) {
    if (!at(block).live) continue;
    if (at(block).parent == kNoBlock) {
      starts.push_back(block);
    } else {
      followers[static_cast<std::size_t>(at(block).parent)].push_back(block);
    }
  }
  std::vector<PrefixRun> runs;
  std::vector<BlockId> run_of(blocks_.size(), kNoBlock);
  while (!starts.empty()) {
    const BlockId first = starts.back(), parent = at(first).parent;
    starts.pop_back();
    PrefixRun run{first,
                  parent == kNoBlock ? kNoBlock : run_of[static_cast<std::size_t>(parent)],
                  {},
                  0,
                  at(first).uses,
                  at(first).last_use,
                  false};
    if (parent == kNoBlock) run.root = at(first).name.before;
    for (BlockId block = first; block != kNoBlock;) {
      run_of[static_cast<std::size_t>(block)] = first;
      ++run.blocks;
      run.pinned = run.pinned || at(block).pins > 0;
      BlockId next = kNoBlock;
      for (const BlockId follower : followers[static_cast<std::size_t>(block)]) {
        if (joins_parent(follower)) {
          next = follower;
        } else {
          starts.push_back(follower);
        }
      }
      block = next;
    }
    runs.push_back(run);
  }
  return runs;
}

}  // namespace quire
