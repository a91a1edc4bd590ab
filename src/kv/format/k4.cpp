// k4: 4 bits with a zero point, keys by dimension and values by token; the arithmetic is in kivi.h.
//
//   lanes   codes  d 0: [ t 0,16 | t 1,17 | ... | t 15,31 ]      d 1: ...   16 bytes, first named in bits 0-3
//           scales [ d 0 | d 1 | ... ]   zeros  [ d 0 | d 1 | ... ]   f16
//   rows    codes  t 0: group 0: [ d 0,16 | ... | d 15,31 ] group 1: ...   t 1: ...
//           scales t 0: [ group 0 | group 1 | ... ]   t 1: ...   zeros  likewise
#include "kv/format/kivi.h"
#include "kv/format/list.h"

namespace quire {

constexpr KvFormatInfo kK4Format{KvFormat::k4,
                                 "k4",
                                 "",
                                 /*by_token=*/false,
                                 /*rotated=*/false,
                                 tile_bytes<KvFormat::k4>,
                                 encode_kivi<KvFormat::k4>,
                                 decode_kivi<KvFormat::k4>};

}  // namespace quire
