// How kernels see a cache: plain pointers and strides, no owner. Whoever lends a view keeps the
// memory alive and says how many tokens of it are valid; the rest may hold anything.
//
//   a group   the layers with one shape and one retention rule
//   a page    32 consecutive tokens of one sequence, for all layers of a group
//   a tile    one page's share of one layer and one head, of keys or of values
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kv/bundle.h"
#include "kv/format.h"

namespace quire {

// Where the tiles of keys, or of values, lie in a page.
struct KvStreamLayout {
  KvFormat format;
  KvOrder order;
  std::int64_t dim;           // values of one head and token
  std::int64_t offset;        // bytes from the page's start to layer 0, head 0
  std::int64_t layer_stride;  // bytes
  std::int64_t head_stride;   // bytes

  std::byte* tile(std::byte* page, std::int64_t layer, std::int64_t head) const {
    return page + offset + layer * layer_stride + head * head_stride;
  }
  const std::byte* tile(const std::byte* page, std::int64_t layer, std::int64_t head) const {
    return page + offset + layer * layer_stride + head * head_stride;
  }
};

struct KvPageLayout {
  KvStreamLayout keys;
  KvStreamLayout values;
  std::int64_t bytes;  // one page
  PageBundle bundle = {};
  // Multi-head latent attention: a token's key is its value (the latent) followed by what `keys`
  // holds (the RoPE part), so a query has values.dim + keys.dim values.
  bool latent = false;

  std::int64_t query_dim() const { return keys.dim + (latent ? values.dim : 0); }
};

// A query at position p sees positions [0, sinks) and the last `window` ones, itself included
// (window 0: all). Positions below `sinks` are read with a query turned as if what lies between
// had never been there. Queries that see everything have no sinks: they give the same bits as without any.
struct KvVisibility {
  std::int64_t sinks = 0;
  std::int64_t window = 0;

  bool operator==(const KvVisibility&) const = default;

  bool sees_all(std::int64_t position) const { return window == 0 || position < sinks + window; }
  // Positions below are read as sinks.
  std::int64_t sinks_at(std::int64_t position) const { return sees_all(position) ? 0 : sinks; }
  // First visible position that is not a sink.
  std::int64_t first(std::int64_t position) const { return sees_all(position) ? 0 : position + 1 - window; }
  bool sees_page(std::int64_t page, std::int64_t position) const {
    return page * kPageTokens < sinks || (page + 1) * kPageTokens > first(position);
  }
  // Whether a sequence of `length` tokens still keeps a page. One page more than the next query
  // sees: rolling back by up to a page then never has to compute anything again.
  bool holds_page(std::int64_t page, std::int64_t length) const {
    return page * kPageTokens < sinks || (page + 2) * kPageTokens > first(length);
  }
};

// What is fixed for all sequences of a group.
struct KvGroupLayout {
  std::int64_t layers;
  std::int64_t kv_heads;
  KvPageLayout wide;              // pages as they are filled: 16 or 32 bits a value
  KvPageLayout packed;            // pages as they are sealed
  bool lossless;                  // sealing is a rename: packed is never used
  std::int64_t sink_pages = 0;    // these many first pages stay wide for ever
  std::int64_t recent_pages = 0;  // and these many before the page of the query
  KvVisibility visible;           // the model's own; a sequence may see less

  // What a query reads depends on positions alone, never on chunk, batch or phase.
  bool reads_wide(std::int64_t page, std::int64_t query_page) const {
    return lossless || page < sink_pages || query_page - page <= recent_pages;
  }
  // Whether a page, once full, is encoded.
  bool packs(std::int64_t page) const { return !lossless && page >= sink_pages; }
};

struct KvTableEntry {
  std::byte* wide = nullptr;    // null once it is gone
  std::byte* packed = nullptr;  // null until it is encoded
};

// One sequence's pages in one group.
struct KvTable {
  const KvTableEntry* pages = nullptr;  // page i holds positions [32 i, 32 i + 32); null where nothing is kept
  // Tokens that outlived eviction, seen by every later query. Each head has its own, in equal
  // number, in pages of the packed layout (of the wide one where the group is lossless).
  const std::byte* const* kept = nullptr;
  std::int64_t kept_tokens = 0;
  std::int64_t first_position = 0;  // positions below are in `kept` or gone; a multiple of 32
  KvVisibility visible = {};
};

// Where a model's layer keeps its keys and values. Several layers may name the same place: they then
// share what the first of them wrote.
struct KvLayerRef {
  std::int64_t group;
  std::int64_t layer;
  bool operator==(const KvLayerRef&) const = default;
};

// Rows [first_row, first_row + rows) of a batch: the next tokens of one sequence.
struct KvRows {
  std::int64_t first_row;
  std::int64_t rows;
  std::int64_t first_position;
  KvTable table;
};

}  // namespace quire
