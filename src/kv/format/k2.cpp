// k2: 2 bits with a zero point, keys by dimension and values by token; the arithmetic is in kivi.h.
//
//   lanes   codes  d 0: [ t 0,8,16,24 | ... | t 7,15,23,31 ]     d 1: ...   8 bytes, first named in bits 0-1
//           scales [ d 0 | d 1 | ... ]   zeros  [ d 0 | d 1 | ... ]   f16
//   rows    codes  t 0: group 0: [ d 0,8,16,24 | ... ] group 1: ...   t 1: ...
//           scales t 0: [ group 0 | group 1 | ... ]   t 1: ...   zeros  likewise
#include "kv/format/kivi.h"
#include "kv/format/list.h"

namespace quire {

constexpr KvFormatInfo kK2Format{KvFormat::k2,
                                 "k2",
                                 "",
                                 /*by_token=*/false,
                                 /*rotated=*/false,
                                 tile_bytes<KvFormat::k2>,
                                 encode_kivi<KvFormat::k2>,
                                 decode_kivi<KvFormat::k2>};

}  // namespace quire
