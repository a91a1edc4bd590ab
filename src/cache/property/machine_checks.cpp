// What must hold after every command.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cache/property/machine.h"

namespace quire::property {

void Machine::check(Live& live) {
  const SequenceModel& model = live.model;
  expect(cache_->length(live.id) == model.length(), "another length");
  expect(std::ranges::equal(cache_->tokens(live.id), model.history.tokens()), "other tokens");

  // A step of no tokens undoes one that was prepared in vain, changes nothing else, and shows everything.
  const StepWant look{live.id, 0};
  const auto plan = cache_->prepare({&look, 1});
  expect(plan.ok() && plan->copies.empty(), "looking is refused");
  expect(cache_->held_bytes(live.id) == oracle_->held_bytes(model), "other pages are held than should be");
  expect(!model.plain || cache_->held_bytes(live.id) == cache_->estimate_bytes(model.length(), model.policy),
         "the estimate is not what is held");
  for (std::size_t g = 0; g < model.groups.size(); ++g) {
    check_group(live, static_cast<std::int64_t>(g), plan->tables[0][g]);
  }
  check_read(live);
}

void Machine::check_group(const Live& live, std::int64_t g, const KvTable& table) {
  const KvGroupLayout& layout = cache_->layouts()[index(g)];
  const GroupModel& group = live.model.groups[index(g)];
  const History& history = live.model.history;
  const auto same = [](const KvPageLayout& page_layout, const std::byte* page, const Bytes& bytes) {
    Bytes there(bytes.size());
    take_out(page_layout, page, there.data());
    return there == bytes;
  };
  expect(table.first_position == group.first_position, "another first position");
  expect(table.visible == group.visible, "other tokens may be seen");
  const std::int64_t open = history.length() / kPageTokens;
  for (std::int64_t page = 0; page < std::ssize(group.pages); ++page) {
    const KvTableEntry& entry = table.pages[page];
    const PageModel& should = group.pages[index(page)];
    expect((entry.wide != nullptr) == should.wide, "a 16-bit page is there and should not, or the other way round");
    expect((entry.packed != nullptr) == should.packed, "an encoded page is there and should not, or the reverse");
    if (page == open) continue;
    if (should.wide)
      expect(same(layout.wide, entry.wide, bytes_.wide(g, history.page(page))), "wrong bytes in a full page");
    if (should.packed) {
      expect(same(layout.packed, entry.packed, bytes_.packed(g, history.page(page))), "wrong bytes in a sealed page");
    }
  }
  expect(table.kept_tokens == group.kept_tokens, "another number of kept tokens");
  for (std::size_t page = 0; page < group.kept.size(); ++page) {
    const KvPageLayout& kept = layout.lossless ? layout.wide : layout.packed;
    expect(same(kept, table.kept[page], group.kept[page]), "wrong bytes in a kept page");
  }

  // The open page, token by token.
  if (history.length() % kPageTokens == 0) return;
  PageBytes::for_each_tile(layout, [&](std::int64_t layer, std::int64_t head, Stream s) {
    const KvStreamLayout& stream = stream_of(layout.wide, s);
    std::array<float, 64> should, is;
    for (std::int64_t p = open * kPageTokens; p < history.length(); ++p) {
      computed_row(history.hash(p), g, layer, head, s, stream.dim, should.data());
      turn(layout, s, stream.dim, should.data());
      read_token(stream.format, stream.order, stream.tile(table.pages[open].wide, layer, head), p % kPageTokens,
                 stream.dim, is.data());
      // Where a page is turned before it is stored, 16 bits do not hold it exactly.
      const float tolerance = info(stream_of(layout.packed, s).format).rotated ? 0.125f : 0.f;
      for (std::size_t d = 0; d < index(stream.dim); ++d) {
        expect(std::abs(is[d] - should[d]) <= tolerance, "a wrong number in an open page");
      }
    }
  });
}

// Some range of some layer through the slow reader.
void Machine::check_read(const Live& live) {
  const std::int64_t length = live.model.length();
  const Hash choice = mix(operations_ * 64 + live.id);
  const auto layer = static_cast<std::int64_t>(choice % cache_->layer_map().size());
  const auto start = static_cast<std::int64_t>((choice >> 8) % static_cast<Hash>(length + 1));
  const auto count =
      static_cast<std::int64_t>((choice >> 24) % static_cast<Hash>(std::min(length - start, kPageTokens + 8) + 1));
  const KvLayerRef place = cache_->layer_map()[index(layer)];
  const KvGroupLayout& layout = cache_->layouts()[index(place.group)];
  const GroupModel& group = live.model.groups[index(place.group)];
  bool there = true;
  for (std::int64_t p = start; p < start + count; ++p) there = there && group.has(p / kPageTokens);
  const auto read = cache_->read(live.id, layer, start, count);
  expect(read.ok() == there, "a position that is gone can be read, or one that is there cannot");
  expect(!cache_->read(live.id, layer, start, length - start + 1).ok(), "a position beyond the end can be read");
  if (!there) return;

  const auto compare = [&](Stream s, const Floats& rows) {
    const KvStreamLayout& stream = stream_of(layout.wide, s);
    expect(std::ssize(rows) == count * layout.kv_heads * stream.dim, "another number of rows is read");
    const float* row = rows.data();
    std::array<float, 64> should;
    std::vector<Floats> tiles(index(layout.kv_heads));  // of the sealed page that p lies in
    for (std::int64_t p = start; p < start + count; ++p) {
      const std::int64_t page = p / kPageTokens;
      const bool packed = group.pages[index(page)].packed;
      const bool rotated = info(stream_of(layout.packed, s).format).rotated;
      const float tolerance = rotated && !packed ? 0.125f : 0.f;
      for (std::int64_t head = 0; head < layout.kv_heads; ++head, row += stream.dim) {
        if (packed) {
          Floats& tile = tiles[index(head)];
          if (p == start || p % kPageTokens == 0) {
            const Bytes& bytes = bytes_.packed(place.group, live.model.history.page(page));
            tile = PageBytes::decode(layouts_[index(place.group)].packed, bytes.data(), place.layer, head, s);
          }
          std::copy_n(tile.begin() + p % kPageTokens * stream.dim, stream.dim, should.begin());
          turn(layout, s, stream.dim, should.data());
        } else {
          computed_row(live.model.history.hash(p), place.group, place.layer, head, s, stream.dim, should.data());
        }
        for (std::int64_t d = 0; d < stream.dim; ++d) {
          expect(std::abs(row[d] - should[index(d)]) <= tolerance, "a wrong number is read");
        }
      }
    }
  };
  compare(Stream::keys, read->keys);
  compare(Stream::values, read->values);
}

void Machine::check_stats() {
  const CacheStats stats = cache_->stats();
  std::int64_t tokens = 0;
  for (const Live& live : live_) tokens += live.model.length();
  expect(stats.sequences == std::ssize(live_) && stats.tokens == tokens, "sequences or tokens are counted wrongly");
  expect(stats.reserved_bytes <= stats.budget_bytes, "more is reserved than the budget");
  expect(stats.counters.encoded_pages == oracle_->encoded_pages(), "encoded pages are counted wrongly");
  expect(stats.counters.evicted_tokens == oracle_->evicted_tokens(), "evicted tokens are counted wrongly");
  expect(stats.counters.asked_tokens == asked_tokens_ && stats.counters.hit_tokens == hit_tokens_,
         "hits are counted wrongly");
  expect(!roomy_ || stats.counters.evicted_pages == 0, "pages leave where there is room");
  expect(stats.held_bytes() + stats.cached_bytes <= stats.reserved_bytes, "more is held than is reserved");
  expect(stats.cached_bytes == 0 || oracle_->shares(), "pages are cached where nothing is shared");
}

// Every page in use is held by somebody, and its count of holders is right.
void Machine::check_pages() {
  std::vector<const PageRef*> held = cache_->held_pages();
  std::ranges::sort(held, {}, [](const PageRef* page) { return page->data(); });
  const PoolCounters pool = cache_->pool_counters();
  std::vector<std::uint64_t> distinct(pool.classes.size());
  for (std::size_t i = 0; i < held.size();) {
    std::size_t end = i;
    while (end < held.size() && held[end]->data() == held[i]->data()) ++end;
    expect(held[i]->use_count() == end - i, "a page's holders are miscounted");
    ++distinct[static_cast<std::size_t>(held[i]->size_class())];
    i = end;
  }
  for (std::size_t c = 0; c < distinct.size(); ++c) {
    expect(distinct[c] == pool.classes[c].pages_in_use, "pages are in use that nobody holds");
  }
}

}  // namespace quire::property
