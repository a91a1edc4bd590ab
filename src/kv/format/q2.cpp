// q2: 2 bits of a codebook of 4 levels, after rotation; the arithmetic is in codebook.h.
//
//   lanes   codes  d 0: [ t 0,8,16,24 | ... | t 7,15,23,31 ]     d 1: ...   8 bytes, first named in bits 0-1
//           scales group 0: [ t 0 | ... | t 31 ]                 group 1: ...   bf16
//   rows    codes  t 0: group 0: [ d 0,8,16,24 | ... ] group 1: ...   t 1: ...
//           scales t 0: [ group 0 | group 1 | ... ]              t 1: ...
#include "kv/format/codebook.h"
#include "kv/format/list.h"

namespace quire {

constexpr KvFormatInfo kQ2Format{KvFormat::q2,
                                 "q2",
                                 "",
                                 /*by_token=*/false,
                                 /*rotated=*/true,
                                 tile_bytes<KvFormat::q2>,
                                 encode_codebook<kBook2, KvFormat::q2>,
                                 decode_codebook<kBook2, KvFormat::q2>};

}  // namespace quire
