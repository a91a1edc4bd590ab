// fp8: eight-bit floats (e4m3), one scale per token and group of 64 dimensions (the last may be
// smaller), the largest magnitude near 448. Off by at most 1/16 of the value itself, or, for what
// is below 1/28,672 of the group's largest, by 1/458,752 of that.
//
//   lanes   codes  d 0: [ t 0 | t 1 | ... | t 31 ]  d 1: [ ... ]     1 byte each
//           scales group 0: [ t 0 | ... | t 31 ]    group 1: [ ... ] bf16
//   rows    codes  t 0: [ d 0 | d 1 | ... ]         t 1: [ ... ]
//           scales t 0: [ group 0 | group 1 ... ]   t 1: [ ... ]
#include "kv/format/bytes.h"
#include "kv/format/e4m3.h"
#include "kv/format/list.h"

namespace quire {
namespace {

struct E4m3Code {
  static constexpr float kLargest = 448.f;
  static std::uint8_t from(float x) { return f32_to_e4m3(x); }
  static float to(std::uint8_t code) { return e4m3_to_f32(code); }
};

}  // namespace

constexpr KvFormatInfo kFp8Format{KvFormat::fp8,
                                  "fp8",
                                  "",
                                  /*by_token=*/false,
                                  /*rotated=*/false,
                                  tile_bytes<KvFormat::fp8>,
                                  encode_bytes<E4m3Code, KvFormat::fp8>,
                                  decode_bytes<E4m3Code, KvFormat::fp8>};

}  // namespace quire
