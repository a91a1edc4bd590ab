// Codes of five bits and fewer, in lines of 32 (drawn in layouts.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kv/format/layouts.h"

namespace quire {

// Into a line that is zero where no code has been put yet.
template <KvFormat format>
void put_code(std::byte* tile, const KvTileParts& parts, std::int64_t line, std::int64_t i, std::uint8_t code) {
  constexpr std::int64_t kBytes = kv_line_bytes(format);
  constexpr std::int64_t kBits = kBytes / 4;
  const auto low = static_cast<std::uint8_t>(code & ((1 << kBits) - 1));
  tile[line * kBytes + i % kBytes] |= std::byte{low} << (kBits * (i / kBytes));
  if (kv_code_bits(format) == 5) {
    tile[parts.fifth_bits + line * 4 + i / 8] |= std::byte{static_cast<std::uint8_t>(code >> 4)} << (i % 8);
  }
}

template <KvFormat format>
std::uint8_t get_code(const std::byte* tile, const KvTileParts& parts, std::int64_t line, std::int64_t i) {
  constexpr std::int64_t kBytes = kv_line_bytes(format);
  constexpr std::int64_t kBits = kBytes / 4;
  constexpr auto kMask = static_cast<std::byte>((1 << kBits) - 1);
  std::byte code = (tile[line * kBytes + i % kBytes] >> (kBits * (i / kBytes))) & kMask;
  if (kv_code_bits(format) == 5) {
    code |= ((tile[parts.fifth_bits + line * 4 + i / 8] >> (i % 8)) & std::byte{1}) << 4;
  }
  return std::to_integer<std::uint8_t>(code);
}

}  // namespace quire
