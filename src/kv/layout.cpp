#include "kv/layout.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/fail.h"

namespace quire {
namespace {

// Pages are handed out in whole cache lines: what they are estimated at is what they take.
constexpr std::int64_t kPageAlignment = 64;

constexpr std::int64_t kMostLayers = 4096, kMostHeads = 4096, kMostDim = 65536;

KvPageLayout page_layout(const KvGroupSpec& spec, KvFormat keys, KvFormat values) {
  const std::int64_t key_tile = info(keys).tile_bytes(KvOrder::lanes, spec.key_dim);
  const std::int64_t value_tile = info(values).tile_bytes(KvOrder::rows, spec.value_dim);
  const std::int64_t head = key_tile + value_tile, layer = spec.kv_heads * head;
  KvPageLayout page;
  page.keys = {keys, KvOrder::lanes, spec.key_dim, 0, layer, head};
  page.values = {values, KvOrder::rows, spec.value_dim, key_tile, layer, head};
  page.bytes = (spec.layers * layer + kPageAlignment - 1) / kPageAlignment * kPageAlignment;
  page.latent = spec.latent;
  return page;
}

// Pages of one stream's tiles are contiguous runs: a lane order tile is dim runs of 32 tokens, of
// which the first `count` are copied; rows are one run.
void copy_stream(const KvStreamLayout& stream, const KvGroupLayout& group, const std::byte* from, std::byte* to,
                 std::int64_t count) {
  const std::int64_t runs = stream.order == KvOrder::lanes ? stream.dim : 1;
  const std::int64_t tile = info(stream.format).tile_bytes(stream.order, stream.dim);
  const std::int64_t value = stream.format == KvFormat::f32 ? 4 : 2;
  const std::int64_t run = runs == 1 ? kPageTokens * stream.dim * value : kPageTokens * value;
  for (std::int64_t layer = 0; layer < group.layers; ++layer) {
    for (std::int64_t head = 0; head < group.kv_heads; ++head) {
      const std::byte* source = stream.tile(from, layer, head);
      std::byte* target = stream.tile(to, layer, head);
      if (count == kPageTokens) {
        std::memcpy(target, source, static_cast<std::size_t>(tile));
        continue;
      }
      for (std::int64_t r = 0; r < runs; ++r) {
        std::memcpy(target + r * run, source + r * run, static_cast<std::size_t>(run / kPageTokens * count));
      }
    }
  }
}

}  // namespace

Result<KvGroupLayout> make_layout(const KvGroupSpec& spec) {
  const auto within = [](std::int64_t x, std::int64_t most) { return x >= 1 && x <= most; };
  if (!within(spec.layers, kMostLayers) || !within(spec.kv_heads, kMostHeads) || !within(spec.key_dim, kMostDim) ||
      !within(spec.value_dim, kMostDim)) {
    return fail(Errc::invalid_argument,
                "[cache] {} layers, {} KV heads, keys of {} and values of {}; each must be 1 to {}", spec.layers,
                spec.kv_heads, spec.key_dim, spec.value_dim, kMostLayers);
  }
  QUIRE_CHECK_OK(check_visibility(spec.visible));
  if (spec.visible.sinks > 0) {
    return fail(Errc::invalid_argument, "[cache] {} sinks for all sequences; each has its own", spec.visible.sinks);
  }
  if (spec.sink_pages < 0 || spec.recent_pages < 0) {
    return fail(Errc::invalid_argument, "[cache] the number of 16-bit pages cannot be negative");
  }
  KvGroupLayout layout{};
  layout.layers = spec.layers;
  layout.kv_heads = spec.kv_heads;
  layout.wide = page_layout(spec, open_format(spec.keys), open_format(spec.values));
  layout.packed = page_layout(spec, spec.keys, spec.values);
  layout.lossless = info(spec.keys).by_token && info(spec.values).by_token;
  layout.sink_pages = spec.sink_pages;
  layout.recent_pages = spec.recent_pages;
  layout.visible = spec.visible;
  return layout;
}

KvPageLayout bundled(const KvPageLayout& page, std::uint64_t most_bytes) {
  // Beyond, reading gains a hundredth or two.
  constexpr std::int64_t kMostPages = 64;
  const std::int64_t tile = page.values.offset - page.keys.offset;
  const bool alike = tile > 0 && tile % kPageAlignment == 0 && page.values.head_stride == 2 * tile;
  std::int64_t pages = alike ? kMostPages : 1;
  while (pages > 1 && static_cast<std::uint64_t>(pages * page.bytes) > most_bytes) {
    pages = pages == PageBundle::kInTurn ? 1 : pages / 2;
  }
  if (pages == 1) return page;
  KvPageLayout result = page;
  result.bundle = {pages, tile};
  result.values.offset = result.bundle.values_offset();
  for (KvStreamLayout* stream : {&result.keys, &result.values}) {
    stream->layer_stride *= pages;
    stream->head_stride *= pages;
  }
  return result;
}

void take_out(const KvPageLayout& layout, const std::byte* page, std::byte* to) {
  layout.bundle.for_each_piece(layout.bytes, [&](std::int64_t in_page, std::int64_t alone, std::int64_t bytes) {
    std::memcpy(to + alone, page + in_page, static_cast<std::size_t>(bytes));
  });
}

void put_in(const KvPageLayout& layout, const std::byte* from, std::byte* page) {
  layout.bundle.for_each_piece(layout.bytes, [&](std::int64_t in_page, std::int64_t alone, std::int64_t bytes) {
    std::memcpy(page + in_page, from + alone, static_cast<std::size_t>(bytes));
  });
}

KvVisibility narrower(const KvVisibility& own, const KvVisibility& policy) {
  return own.window > 0 && (policy.window == 0 || own.window <= policy.window) ? own : policy;
}

std::int64_t unaffected_tokens(const KvVisibility& own, const KvVisibility& policy) {
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  if (narrower(own, policy) == own) return kAll;
  // With its sinks a narrower window may begin by seeing more than the model's own.
  return std::min(policy.sinks + policy.window, own.window > 0 ? own.window : kAll);
}

Result<void> check_visibility(const KvVisibility& visible) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (visible.sinks < 0 || visible.window < 0 || visible.sinks > kMost || visible.window > kMost) {
    return fail(Errc::invalid_argument, "[cache] {} sinks and a window of {}; expected 0 to 2^40", visible.sinks,
                visible.window);
  }
  if (visible.sinks > 0 && visible.window == 0) {
    return fail(Errc::invalid_argument, "[cache] {} sinks without a window; give one, or none", visible.sinks);
  }
  return {};
}

std::uint64_t sequence_bytes(const KvGroupLayout& layout, std::int64_t tokens, const KvVisibility& policy) {
  const KvVisibility visible = narrower(layout.visible, policy);
  const std::int64_t pages = pages_for(tokens), open = tokens / kPageTokens;
  std::int64_t bytes = 0;
  for (std::int64_t page = 0; page < pages; ++page) {
    if (!visible.holds_page(page, tokens)) continue;
    const bool full = page < open;
    if (!full || layout.reads_wide(page, open)) bytes += layout.wide.bytes;
    if (full && layout.packs(page)) bytes += layout.packed.bytes;
  }
  return static_cast<std::uint64_t>(bytes);
}

void copy_tokens(const KvGroupLayout& layout, const std::byte* from, std::byte* to, std::int64_t count) {
  copy_stream(layout.wide.keys, layout, from, to, count);
  copy_stream(layout.wide.values, layout, from, to, count);
}

}  // namespace quire
