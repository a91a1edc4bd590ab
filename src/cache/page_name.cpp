#include "cache/page_name.h"

#include <bit>

#include "core/check.h"

namespace quire {
namespace {

// Keeps the four uses of the hash apart, whatever the lengths of their inputs.
enum class Use : std::uint8_t { root, mix, block, page };

Hasher& begin(Use use, const Digest& digest) {
  thread_local Hasher hasher;
  return hasher.update(static_cast<std::uint8_t>(use)).update(digest);
}

}  // namespace

Digest page_name(const Digest& chain, int group) {
  return begin(Use::page, chain).update(static_cast<std::int32_t>(group)).finish();
}

ChainNamer::ChainNamer(const Digest& root) : chain_(begin(Use::root, root).finish()) {}

void ChainNamer::mix_at(std::int64_t block, const Digest& what) {
  QUIRE_ASSERT(block >= blocks_, "mixing something into a block that has its name already");
  mixed_.emplace_back(block, what);
}

Digest ChainNamer::before_next() const {
  Digest before = chain_;
  for (const auto& [block, what] : mixed_) {
    if (block == blocks_) before = begin(Use::mix, before).update(what).finish();
  }
  return before;
}

BlockName ChainNamer::next(std::span<const TokenId> tokens) {
  static_assert(std::endian::native == std::endian::little, "tokens are hashed as they lie in memory");
  const Digest before = before_next();
  chain_ = begin(Use::block, before).update(std::as_bytes(tokens)).finish();
  ++blocks_;
  return {before, chain_};
}

}  // namespace quire
