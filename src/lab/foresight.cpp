#include "lab/foresight.h"

#include <limits>

namespace quire {

Foresight::Foresight(const Trace& trace) : first_(trace.distinct + 1) {
  for (const TokenId id : trace.ids) ++first_[static_cast<std::size_t>(id) + 1];
  for (std::size_t id = 0; id < trace.distinct; ++id) first_[id + 1] += first_[id];
  uses_.resize(trace.ids.size());
  next_.assign(first_.begin(), first_.end() - 1);
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    for (const TokenId id : trace.blocks_of(trace.requests[i])) uses_[next_[static_cast<std::size_t>(id)]++] = i;
  }
  next_.assign(first_.begin(), first_.end() - 1);
}

std::size_t Foresight::next_use(std::uint64_t key) {
  std::size_t& next = next_[key];
  while (next < first_[key + 1] && uses_[next] <= now_) ++next;
  return next < first_[key + 1] ? uses_[next] : std::numeric_limits<std::size_t>::max();
}

void Foresight::inserted(BlockId block, BlockId, std::uint64_t key) {
  if (block >= std::ssize(blocks_)) blocks_.resize(static_cast<std::size_t>(block) + 1);
  at(block) = {key, next_use(key)};
}

void Foresight::used(BlockId block) {
  at(block).next_use = next_use(at(block).key);
  candidates_.update(block, at(block).next_use);
}

void Foresight::removed(BlockId, BlockId) {}

void Foresight::may_leave(BlockId block) { candidates_.add(block, at(block).next_use); }

void Foresight::must_stay(BlockId block) { candidates_.remove(block); }

std::optional<BlockId> Foresight::victim() {
  const auto& order = candidates_.order();
  return order.empty() ? std::nullopt : std::optional(order.rbegin()->second);
}

}  // namespace quire
