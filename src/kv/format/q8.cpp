// q8: integers of [-127, 127], one scale per token and group of 64 dimensions (the last may be
// smaller). Off by at most half a scale: 1/254 of the group's largest magnitude, give or take the
// rounding of the scale.
//
//   lanes   codes  d 0: [ t 0 | t 1 | ... | t 31 ]  d 1: [ ... ]     1 byte each
//           scales group 0: [ t 0 | ... | t 31 ]    group 1: [ ... ] bf16
//   rows    codes  t 0: [ d 0 | d 1 | ... ]         t 1: [ ... ]
//           scales t 0: [ group 0 | group 1 ... ]   t 1: [ ... ]
#include <cmath>

#include "kv/format/bytes.h"
#include "kv/format/list.h"

namespace quire {
namespace {

struct Int8Code {
  static constexpr float kLargest = 127.f;
  static std::uint8_t from(float x) { return static_cast<std::uint8_t>(std::lrint(x)); }  // nearest, ties to even
  static float to(std::uint8_t code) { return static_cast<float>(static_cast<std::int8_t>(code)); }
};

}  // namespace

constexpr KvFormatInfo kQ8Format{KvFormat::q8,
                                 "q8",
                                 "q8_0",
                                 /*by_token=*/false,
                                 /*rotated=*/false,
                                 tile_bytes<KvFormat::q8>,
                                 encode_bytes<Int8Code, KvFormat::q8>,
                                 decode_bytes<Int8Code, KvFormat::q8>};

}  // namespace quire
