#include "cache/property/oracle.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace quire::property {
namespace {

// Whether the query at `position` sees anything of a page.
bool sees(const KvVisibility& visible, std::int64_t page, std::int64_t position) {
  const std::int64_t begin = page * kPageTokens, end = begin + kPageTokens;
  const bool in_window = visible.window == 0 || end > position + 1 - visible.window;
  return begin < visible.sinks || in_window;
}

bool sees_token(const KvVisibility& visible, std::int64_t token, std::int64_t position) {
  return token < visible.sinks || visible.window == 0 || token > position - visible.window;
}

// The first position that sees other tokens than it should.
std::int64_t first_difference(const KvVisibility& own, const KvVisibility& chosen) {
  constexpr std::int64_t kFar = 1000;
  for (std::int64_t position = 0; position < kFar; ++position) {
    for (std::int64_t token = 0; token <= position; ++token) {
      if (sees_token(own, token, position) != sees_token(chosen, token, position)) return position;
    }
  }
  return kFar;
}

}  // namespace

Oracle::Oracle(std::span<const KvGroupLayout> layouts, PageBytes& bytes)
    : layouts_(layouts.begin(), layouts.end()),
      bytes_(bytes),
      shares_(std::ranges::any_of(layouts, [](const KvGroupLayout& layout) { return layout.visible.window == 0; })) {}

SequenceModel Oracle::open(Hash salt, const KvVisibility& policy) const {
  std::vector<GroupModel> groups(layouts_.size());
  std::int64_t changed_from = std::numeric_limits<std::int64_t>::max();
  for (std::size_t g = 0; g < layouts_.size(); ++g) {
    const KvVisibility& own = layouts_[g].visible;
    const bool narrows = policy.window > 0 && (own.window == 0 || policy.window < own.window);
    groups[g].visible = narrows ? policy : own;
    if (narrows) changed_from = std::min(changed_from, first_difference(own, policy));
  }
  SequenceModel sequence{History(salt, static_cast<Hash>(policy.sinks * 1000 + policy.window), changed_from), policy,
                         std::move(groups)};
  for (std::size_t g = 0; g < layouts_.size(); ++g) {
    sequence.groups[g].scores.resize(index(layouts_[g].layers * layouts_[g].kv_heads));
  }
  return sequence;
}

void Oracle::commit(SequenceModel& sequence, std::span<const TokenId> tokens) {
  const std::int64_t before = sequence.length();
  sequence.history.push(tokens);
  const std::int64_t length = sequence.length(), open = length / kPageTokens;
  for (std::size_t g = 0; g < layouts_.size(); ++g) {
    const KvGroupLayout& layout = layouts_[g];
    GroupModel& group = sequence.groups[g];
    for (std::int64_t page = before / kPageTokens; page < open; ++page) encoded_pages_ += layout.packs(page);
    group.pages.resize(index(pages_for(length)), {true, false});
    for (std::int64_t page = 0; page < std::ssize(group.pages); ++page) {
      PageModel& model = group.pages[index(page)];
      if (page < open && page >= before / kPageTokens) model.packed = layout.packs(page);
      if (page < open && !layout.reads_wide(page, open)) model.wide = false;
      if (!group.visible.holds_page(page, length)) model = {};
    }
    for (Floats& head : group.scores) head.resize(index(sequence.cached(g)));
  }
  if (!sequence.named || !shares_) return;
  const std::int64_t nameable = std::min(length, sequence.history.changed_from()) / kPageTokens;
  for (std::int64_t page = before / kPageTokens; page < nameable; ++page) {
    Indexed& block =
        indexed(sequence.history.salt(), std::span(sequence.history.tokens()).first(index((page + 1) * kPageTokens)));
    for (std::size_t g = 0; g < layouts_.size(); ++g) block.groups[g].far |= layouts_[g].visible.window == 0;
  }
}

Oracle::Indexed& Oracle::indexed(Hash salt, std::span<const TokenId> tokens) {
  if (const Indexed* found = find(salt, tokens)) return const_cast<Indexed&>(*found);
  Indexed& added = index_.emplace_back();
  added.salt = salt;
  added.tokens.assign(tokens.begin(), tokens.end());
  added.groups.resize(layouts_.size());
  return added;
}

const Oracle::Indexed* Oracle::find(Hash salt, std::span<const TokenId> tokens) const {
  for (const Indexed& block : index_) {
    if (block.salt == salt && std::ranges::equal(block.tokens, tokens)) return &block;
  }
  return nullptr;
}

// Which pages of a block are wanted to go on after `blocks` blocks.
Oracle::Indexed::Pages Oracle::needed(const KvGroupLayout& layout, std::int64_t page, std::int64_t blocks) const {
  const bool seen = sees(layout.visible, page, blocks * kPageTokens);
  const bool twin = !layout.lossless && blocks - page <= layout.recent_pages;
  return {seen, twin && seen};
}

// Pages that not every later query wants are kept for those who may go on right here.
void Oracle::checkpoint(const SequenceModel& sequence) {
  if (!sequence.named || !shares_) return;
  const std::int64_t blocks = std::min(sequence.length(), sequence.history.changed_from()) / kPageTokens;
  for (std::int64_t page = 0; page < blocks; ++page) {
    Indexed& block =
        indexed(sequence.history.salt(), std::span(sequence.history.tokens()).first(index((page + 1) * kPageTokens)));
    for (std::size_t g = 0; g < layouts_.size(); ++g) {
      const PageModel& model = sequence.groups[g].pages[index(page)];
      const Indexed::Pages wanted = needed(layouts_[g], page, blocks);
      const bool there = layouts_[g].packs(page) ? model.packed : model.wide;
      block.groups[g].far |= wanted.far && there;
      block.groups[g].twin |= wanted.twin && model.wide;
    }
  }
}

std::int64_t Oracle::expected_hit(const SequenceModel& sequence, std::span<const TokenId> prompt) const {
  if (!shares_ || prompt.empty()) return 0;
  const Hash salt = sequence.history.salt();
  prompt = prompt.first(index(std::min(std::ssize(prompt) - 1, sequence.history.changed_from()) + 1));
  const auto most = (std::ssize(prompt) - 1) / kPageTokens;
  std::vector<const Indexed*> blocks;
  while (std::ssize(blocks) < most) {
    const Indexed* block = find(salt, prompt.first(index((std::ssize(blocks) + 1) * kPageTokens)));
    if (block == nullptr) break;
    blocks.push_back(block);
  }
  const auto complete = [&](std::int64_t count) {
    for (std::int64_t page = 0; page < count; ++page) {
      for (std::size_t g = 0; g < layouts_.size(); ++g) {
        const Indexed::Pages wanted = needed(layouts_[g], page, count), &has = blocks[index(page)]->groups[g];
        if ((wanted.far && !has.far) || (wanted.twin && !has.twin)) return false;
      }
    }
    return true;
  };
  auto count = std::ssize(blocks);
  while (!complete(count)) --count;
  return count * kPageTokens + partial_hit(salt, prompt, count);
}

// Of a block that follows, the tokens that agree, where pages can be opened again.
std::int64_t Oracle::partial_hit(Hash salt, std::span<const TokenId> prompt, std::int64_t blocks) const {
  if (!std::ranges::all_of(layouts_, &KvGroupLayout::lossless)) return 0;
  std::int64_t best = 0;
  for (const Indexed& block : index_) {
    if (block.salt != salt || std::ssize(block.tokens) != (blocks + 1) * kPageTokens) continue;
    const auto agree = std::mismatch(block.tokens.begin(), block.tokens.end(), prompt.begin(), prompt.end() - 1).first -
                       block.tokens.begin();
    bool usable = agree > blocks * kPageTokens;
    for (const Indexed::Pages& has : block.groups) usable = usable && has.far;
    if (usable) best = std::max<std::int64_t>(best, agree - blocks * kPageTokens);
  }
  return best;
}

void Oracle::attach(SequenceModel& sequence, std::span<const TokenId> prompt, std::int64_t hit) const {
  sequence.history.push(prompt.first(index(hit)));
  sequence.plain = hit == 0;
  const std::int64_t blocks = hit / kPageTokens;
  for (std::size_t g = 0; g < layouts_.size(); ++g) {
    const KvGroupLayout& layout = layouts_[g];
    GroupModel& group = sequence.groups[g];
    for (std::int64_t page = 0; page < blocks; ++page) {
      const bool seen = sees(group.visible, page, blocks * kPageTokens);
      group.pages.push_back({seen && layout.reads_wide(page, blocks), seen && layout.packs(page)});
    }
    if (hit % kPageTokens != 0) group.pages.push_back({true, false});
    for (Floats& head : group.scores) head.resize(index(hit));
  }
}

bool Oracle::resumable(const SequenceModel& sequence, std::int64_t length) const {
  const std::int64_t open = length / kPageTokens;
  for (std::size_t g = 0; g < layouts_.size(); ++g) {
    const GroupModel& group = sequence.groups[g];
    if (length < group.first_position) return false;
    if (length % kPageTokens != 0 && !group.pages[index(open)].wide) return false;
    for (std::int64_t page = group.first_position / kPageTokens; page < open; ++page) {
      if (!sees(group.visible, page, length)) continue;
      const PageModel& model = group.pages[index(page)];
      if (!(layouts_[g].reads_wide(page, open) ? model.wide : model.packed)) return false;
    }
  }
  return true;
}

std::int64_t Oracle::rollback(SequenceModel& sequence, std::int64_t length) const {
  if (length >= sequence.length()) return sequence.length();
  while (length > 0 && !resumable(sequence, length)) length = (length - 1) / kPageTokens * kPageTokens;
  sequence.history.truncate(length);
  sequence.plain = false;
  for (std::size_t g = 0; g < layouts_.size(); ++g) {
    GroupModel& group = sequence.groups[g];
    group.pages.resize(index(pages_for(length)));
    if (length % kPageTokens != 0) group.pages.back().packed = false;
    if (length == 0) {
      group.first_position = group.kept_tokens = 0;
      group.kept.clear();
    }
    for (Floats& head : group.scores) head.resize(index(sequence.cached(g)));
  }
  sequence.named |= length == 0;
  return length;
}

void Oracle::drop_front(SequenceModel& sequence, std::int64_t position) const {
  const std::int64_t first = position / kPageTokens * kPageTokens;
  if (first == 0) return;
  sequence.named = sequence.plain = false;
  for (std::size_t g = 0; g < layouts_.size(); ++g) {
    GroupModel& group = sequence.groups[g];
    if (first < group.first_position) continue;
    for (std::int64_t page = 0; page < first / kPageTokens; ++page) group.pages[index(page)] = {};
    group.first_position = first;
    group.kept_tokens = 0;
    group.kept.clear();
    for (Floats& head : group.scores) head.assign(index(sequence.cached(g)), 0.f);
  }
}

void Oracle::add_scores(SequenceModel& sequence, std::span<const float> sums,
                        std::span<const KvLayerRef> places) const {
  std::size_t from = 0;
  for (const KvLayerRef& place : places) {
    const auto g = index(place.group);
    const std::int64_t heads = layouts_[g].kv_heads, cached = sequence.cached(g);
    for (std::int64_t head = 0; head < heads; ++head, from += index(cached)) {
      Floats& scores = sequence.groups[g].scores[index(place.layer * heads + head)];
      for (std::size_t i = 0; i < index(cached); ++i) scores[i] += sums[from + i];
    }
  }
}

void Oracle::evict(SequenceModel& sequence, const Eviction& eviction, const RetentionPolicy& policy) {
  for (std::size_t g = 0; g < layouts_.size(); ++g) {
    if (sequence.groups[g].visible.window == 0) evict_group(g, sequence, eviction, policy);
  }
}

Floats Oracle::candidate_rows(std::size_t group, const SequenceModel& sequence, std::int64_t first_position,
                              std::int64_t layer, std::int64_t head, Stream stream) {
  const KvGroupLayout& layout = layouts_[group];
  const GroupModel& model = sequence.groups[group];
  Floats rows;
  const auto add = [&](const KvPageLayout& page, const Bytes& bytes, std::int64_t tokens) {
    const Floats tile = PageBytes::decode(page, bytes.data(), layer, head, stream);
    rows.insert(rows.end(), tile.begin(), tile.begin() + tokens * stream_of(page, stream).dim);
  };
  for (std::int64_t start = 0; start < model.kept_tokens; start += kPageTokens) {
    add(layout.lossless ? layout.wide : layout.packed, model.kept[index(start / kPageTokens)],
        std::min(kPageTokens, model.kept_tokens - start));
  }
  for (std::int64_t page = model.first_position / kPageTokens; page < first_position / kPageTokens; ++page) {
    const std::span<const Hash> hashes = sequence.history.page(page);
    const auto g = static_cast<std::int64_t>(group);
    const bool packed = model.pages[index(page)].packed;
    add(packed ? layout.packed : layout.wide, packed ? bytes_.packed(g, hashes) : bytes_.wide(g, hashes), kPageTokens);
  }
  return rows;
}

void Oracle::evict_group(std::size_t g, SequenceModel& sequence, const Eviction& eviction,
                         const RetentionPolicy& policy) {
  const KvGroupLayout& layout = layouts_[g];
  const KvPageLayout& target = layout.lossless ? layout.wide : layout.packed;
  GroupModel& group = sequence.groups[g];
  const std::int64_t count = group.kept_tokens + eviction.first_position - group.first_position;
  const std::int64_t keep = std::min(eviction.keep, count);
  std::vector<Bytes> kept(index(pages_for(keep)), Bytes(index(target.bytes), kPoison));
  PageBytes::for_each_tile(layout, [&](std::int64_t layer, std::int64_t head, Stream stream) {
    Floats& scores = group.scores[index(layer * layout.kv_heads + head)];
    Floats ranks(scores.begin(), scores.begin() + count);
    policy.rank(ranks);
    std::vector<std::int64_t> order(index(count));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::ranges::sort(order, [&](std::int64_t a, std::int64_t b) {
      return std::pair(-ranks[index(a)], -a) < std::pair(-ranks[index(b)], -b);
    });
    order.resize(index(keep));
    std::ranges::sort(order);

    const Floats rows = candidate_rows(g, sequence, eviction.first_position, layer, head, stream);
    const std::int64_t dim = stream_of(target, stream).dim;
    for (std::int64_t page = 0; page < std::ssize(kept); ++page) {
      Floats tile;
      for (std::int64_t slot = page * kPageTokens; slot < (page + 1) * kPageTokens; ++slot) {
        const std::int64_t from = order[index(std::min(slot, keep - 1))];  // the last fills its page up
        tile.insert(tile.end(), rows.begin() + from * dim, rows.begin() + (from + 1) * dim);
      }
      PageBytes::encode(target, layer, head, stream, tile, kept[index(page)].data());
    }
    if (stream == Stream::keys) return;  // each head once, when it is done
    Floats left;
    for (const std::int64_t i : order) left.push_back(scores[index(i)]);
    left.insert(left.end(), scores.begin() + count, scores.end());
    scores = std::move(left);
  });
  evicted_tokens_ += static_cast<std::uint64_t>(count - keep);
  for (std::int64_t page = 0; page < eviction.first_position / kPageTokens; ++page) group.pages[index(page)] = {};
  group.first_position = eviction.first_position;
  group.kept_tokens = keep;
  group.kept = std::move(kept);
  sequence.named = sequence.plain = false;
}

std::uint64_t Oracle::held_bytes(const SequenceModel& sequence) const {
  std::int64_t bytes = 0;
  for (std::size_t g = 0; g < layouts_.size(); ++g) {
    for (const PageModel& page : sequence.groups[g].pages) {
      bytes += page.wide * layouts_[g].wide.bytes + page.packed * layouts_[g].packed.bytes;
    }
    for (const Bytes& page : sequence.groups[g].kept) bytes += std::ssize(page);
  }
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace quire::property
