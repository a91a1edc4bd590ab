// The formats a cache can hold keys and values in. A format says how one tile is laid out: the 32
// tokens of a page, for one layer and one head. Everything that moves bytes works tile by tile.
//
// Each format is one file in format/: its layout drawn, a scalar codec that is the truth for every
// kernel, and its bytes. This header is the list and what it means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace quire {

inline constexpr std::int64_t kPageTokens = 32;

enum class KvFormat : std::uint8_t { f32, f16, bf16, fp8, q8, q5, q4, q2, k4, k2 };

// How a tile's 32 tokens x dim values lie in memory.
//   lanes: one lane per token, [dim][32]. Keys: scores of 32 tokens need no horizontal sums.
//   rows:  one row per token, [32][dim]. Values: a weighted sum of rows is one row.
enum class KvOrder : std::uint8_t { lanes, rows };

struct KvFormatInfo {
  KvFormat format;
  std::string_view name;
  std::string_view alias;  // the name llama.cpp's users know, or empty
  // Written token by token and kept as it is: sealing a page of it is a rename. Other formats are
  // encoded from a whole page, which is f16 until then.
  bool by_token;
  // Keys or values are turned by a Hadamard matrix (kv/hadamard.h) before they are stored, which
  // spreads outliers over all dimensions.
  bool rotated;

  std::int64_t (*tile_bytes)(KvOrder order, std::int64_t dim);
  // rows: [32, dim]. Group of values with an infinity or a NaN in it: decodes to NaN, all of it.
  void (*encode)(KvOrder order, const float* rows, std::int64_t dim, std::byte* tile);
  void (*decode)(KvOrder order, const std::byte* tile, std::int64_t dim, float* rows);
};

const KvFormatInfo& info(KvFormat format);
std::span<const KvFormatInfo> kv_formats();                     // all, in the order of the enum
std::optional<KvFormat> find_kv_format(std::string_view name);  // by name or alias

// The format of a page that is still being filled.
inline KvFormat open_format(KvFormat format) { return info(format).by_token ? format : KvFormat::f16; }

// For formats written by token: one token's values at slot `token` of a tile, there and back.
void write_token(KvFormat format, KvOrder order, std::byte* tile, std::int64_t token, const float* values,
                 std::int64_t dim);
void read_token(KvFormat format, KvOrder order, const std::byte* tile, std::int64_t token, std::int64_t dim,
                float* values);

}  // namespace quire
