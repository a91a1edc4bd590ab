// Pages of a bundle lie interleaved: what attention reads one after the other of neighbours lies in a row.
//
//   a page by itself    layer 0, head 0: keys | values   head 1: keys | values  ...
//   a bundle of 8       layer 0, head 0: keys of 0 1 2 3 | values of 0 1 2 3 | keys of 4 5 6 7 | values of 4 5 6 7
//                                head 1: ...
//
// A page is then a pointer to its first tile and longer strides, which is all that kernels see of it.
#pragma once

#include <cstdint>

namespace quire {

struct PageBundle {
  // So many pages' keys, then their values: the order in which attention reads them.
  static constexpr std::int64_t kInTurn = 4;

  std::int64_t pages = 1;  // a multiple of kInTurn, or 1: pages by themselves
  std::int64_t tile = 0;   // bytes of keys, and of values, of a layer and head

  std::int64_t values_offset() const { return pages == 1 ? tile : kInTurn * tile; }
  // From the bundle's start.
  std::int64_t page_offset(std::int64_t page) const {
    return page / kInTurn * kInTurn * 2 * tile + page % kInTurn * tile;
  }
  // piece(offset from the page's start, offset in a page by itself, bytes) for all of a page.
  template <class Piece>
  void for_each_piece(std::int64_t page_bytes, Piece&& piece) const {
    if (pages == 1) return piece(std::int64_t{0}, std::int64_t{0}, page_bytes);
    for (std::int64_t keys = 0; keys < page_bytes; keys += 2 * tile) {
      piece(keys * pages, keys, tile);
      piece(keys * pages + values_offset(), keys + tile, tile);
    }
  }
};

}  // namespace quire
