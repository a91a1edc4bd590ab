// Sealed pages out of a cache and into it, as bytes.
#include "cache/kv_cache.h"
#include "core/check.h"
#include "core/fail.h"

namespace quire {

const KvPageLayout& KvCache::layout_of(const PagePlace& place) const {
  const KvGroupLayout& layout = layouts_[place.table];
  return place.wide ? layout.wide : layout.packed;
}

std::vector<std::byte> KvCache::sealed_page(SequenceId id, const PagePlace& place) const {
  const PageSlot& slot = at(id).tables[place.table].slots()[static_cast<std::size_t>(place.block)];
  const PageRef& page = place.wide ? slot.wide : slot.packed;
  QUIRE_ASSERT(page, "a sequence that was taken over has every page it needs to go on");
  std::vector<std::byte> bytes(static_cast<std::size_t>(place.bytes));
  take_out(layout_of(place), page.data(), bytes.data());
  return bytes;
}

Result<void> KvCache::append_sealed(SequenceId id, std::span<const TokenId> tokens, std::span<const PageBytes> pages) {
  Sequence& sequence = at(id);
  const std::int64_t block = sequence.length() / kPageTokens;
  QUIRE_ASSERT(sequence.named && sequence.prepared == 0 && sequence.length() % kPageTokens == 0 &&
                   std::ssize(tokens) == kPageTokens,
               "only a whole block can follow whole blocks");
  std::vector<PageWant> wants;
  for (const PageBytes& page : pages) {
    QUIRE_ASSERT(page.place.block == block && std::ssize(page.bytes) == page.place.bytes, "a page of another place");
    wants.push_back({page.place.wide ? wide_class(page.place.table) : packed_class(page.place.table), 1});
  }
  QUIRE_TRY(auto taken, take_pages(wants));
  std::vector<PageSlot> slots(sequence.tables.size());
  for (std::size_t i = 0; i < pages.size(); ++i) {
    put_in(layout_of(pages[i].place), pages[i].bytes.data(), taken[i].data());
    PageSlot& slot = slots[pages[i].place.table];
    (pages[i].place.wide ? slot.wide : slot.packed) = std::move(taken[i]);
  }
  for (std::size_t table = 0; table < slots.size(); ++table) {
    sequence.tables[table].push_sealed(std::move(slots[table]));
  }
  sequence.tokens.insert(sequence.tokens.end(), tokens.begin(), tokens.end());
  name_pages(sequence);
  return {};
}

}  // namespace quire
