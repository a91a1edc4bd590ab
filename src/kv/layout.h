// From the shape of a layer group to where every byte of its pages lies.
//
//   page:   layer 0 [head 0: keys | values] [head 1: keys | values] ...   layer 1 ...
//
// Layer by layer, because attention reads one layer of many pages. Where memory allows, neighbours are interleaved
// (kv/bundle.h), so that what it reads one after the other lies in a row.
#pragma once

#include <cstdint>

#include "kv/view.h"
#include "quire/result.h"

namespace quire {

// Raised whenever pages of some format come to lie differently: what was stored before is then of no use.
inline constexpr std::uint64_t kPageLayoutVersion = 2;

// Pages that hold so many tokens, the last one perhaps in part.
constexpr std::int64_t pages_for(std::int64_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

// The layers of a model with one shape and one retention rule.
struct KvGroupSpec {
  std::int64_t layers = 0;
  std::int64_t kv_heads = 0;
  std::int64_t key_dim = 0;    // with latent: of the RoPE part
  std::int64_t value_dim = 0;  // with latent: of the latent
  bool latent = false;
  KvFormat keys = KvFormat::f16;
  KvFormat values = KvFormat::f16;
  KvVisibility visible;  // the model's own: a window or all
  std::int64_t sink_pages = 0;
  std::int64_t recent_pages = 0;
};

// Of pages that lie each by itself.
Result<KvGroupLayout> make_layout(const KvGroupSpec& spec);

// The same pages in bundles of `most_bytes` at most, as many to a bundle as is of use; each by itself where no bundle
// is that small, or where keys and values take up different room.
KvPageLayout bundled(const KvPageLayout& page, std::uint64_t most_bytes);
// A page of a bundle, taken out of it and put into it: [bytes], as a page by itself lies.
void take_out(const KvPageLayout& layout, const std::byte* page, std::byte* to);
void put_in(const KvPageLayout& layout, const std::byte* from, std::byte* page);

// What a sequence sees of a group: the narrower of the model's own window and what a policy allows.
KvVisibility narrower(const KvVisibility& own, const KvVisibility& policy);
// How many first tokens of a sequence see what they would see without the policy.
std::int64_t unaffected_tokens(const KvVisibility& own, const KvVisibility& policy);
// Fails where the numbers mean nothing.
Result<void> check_visibility(const KvVisibility& visible);

// What `tokens` tokens of one sequence take once committed: sealed pages, pages that stay wide, the
// open page, as the allocator counts them. The estimate before anything is allocated.
std::uint64_t sequence_bytes(const KvGroupLayout& layout, std::int64_t tokens, const KvVisibility& policy = {});

// The first `count` tokens of a wide page, all layers: what copy-on-write copies.
void copy_tokens(const KvGroupLayout& layout, const std::byte* from, std::byte* to, std::int64_t count);

}  // namespace quire
