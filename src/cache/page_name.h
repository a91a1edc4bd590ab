// The names of pages. A name covers all that produced the page's bytes, from the very start:
//
//   chain_0     = H(root)                      root: the owner's digest over model, formats, salt ...
//   before_i    = chain_i                      or, where something is mixed in at block i:
//                 H(chain_i, what)
//   chain_{i+1} = H(before_i, tokens of block i)
//   name        = H(chain_{i+1}, group)        of block i's page in a layer group
//
// What affects only later pages is mixed in where it begins, so that shorter prefixes are shared.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/hash.h"
#include "core/ids.h"

namespace quire {

struct BlockName {
  Digest before;  // everything up to the block; equal for blocks that may follow the same history
  Digest chain;   // the same with the block's tokens
};

Digest page_name(const Digest& chain, int group);

class ChainNamer {
 public:
  explicit ChainNamer(const Digest& root);

  // Blocks from number `block` on are affected by what `what` digests. Only for blocks to come.
  void mix_at(std::int64_t block, const Digest& what);

  // Names the next block. [block tokens]
  BlockName next(std::span<const TokenId> tokens);

  std::int64_t blocks() const { return blocks_; }  // named so far
  Digest before_next() const;                      // what next() will give as BlockName::before

 private:
  Digest chain_;
  std::int64_t blocks_ = 0;
  std::vector<std::pair<std::int64_t, Digest>> mixed_;
};

}  // namespace quire
