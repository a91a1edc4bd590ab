// The blocks that may leave, in the order of a policy's key. While a sequence grows every block may
// leave for the moment until the next one follows it, so a block takes its place in the order only
// when somebody looks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory_resource>
#include <set>
#include <utility>
#include <vector>

#include "cache/block_id.h"
#include "core/check.h"

namespace quire {

template <class Key>
class Candidates {
 public:
  using Order = std::pmr::set<std::pair<Key, BlockId>>;

  bool contains(BlockId block) const {
    return block < std::ssize(blocks_) && blocks_[static_cast<std::size_t>(block)].state != State::absent;
  }

  void add(BlockId block, const Key& key) {
    QUIRE_ASSERT(!contains(block), "a block that may leave already");
    if (block >= std::ssize(blocks_)) blocks_.resize(static_cast<std::size_t>(block) + 1);
    at(block) = {key, State::waiting};
    waiting_.push_back(block);
    if (waiting_.size() > std::max(kMostWaiting, order_.size())) place_all();
  }

  void remove(BlockId block) {
    if (at(block).state == State::placed) order_.erase({at(block).key, block});
    at(block).state = State::absent;
  }

  // Under another key, if it is one.
  void update(BlockId block, const Key& key) {
    if (!contains(block)) return;
    remove(block);
    add(block, key);
  }

  const Order& order() {
    place_all();
    return order_;
  }

 private:
  static constexpr std::size_t kMostWaiting = 4096;
  enum class State : std::uint8_t { absent, waiting, placed };
  struct Block {
    Key key{};
    State state = State::absent;
  };

  Block& at(BlockId block) { return blocks_[static_cast<std::size_t>(block)]; }

  void place_all() {
    for (const BlockId block : waiting_) {
      if (at(block).state != State::waiting) continue;  // gone, or here twice
      order_.emplace(at(block).key, block);
      at(block).state = State::placed;
    }
    waiting_.clear();
  }

  std::vector<Block> blocks_;  // by id
  std::vector<BlockId> waiting_;
  std::pmr::unsynchronized_pool_resource pool_;
  Order order_{&pool_};
};

}  // namespace quire
