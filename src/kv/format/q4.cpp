// q4: 4 bits of a codebook of 16 levels, after rotation; the arithmetic is in codebook.h.
//
//   lanes   codes  d 0: [ t 0,16 | t 1,17 | ... | t 15,31 ]      d 1: ...   16 bytes, first named in bits 0-3
//           scales group 0: [ t 0 | ... | t 31 ]                 group 1: ...   bf16
//   rows    codes  t 0: group 0: [ d 0,16 | ... | d 15,31 ] group 1: ...   t 1: ...
//           scales t 0: [ group 0 | group 1 | ... ]              t 1: ...
#include "kv/format/codebook.h"
#include "kv/format/list.h"

namespace quire {

constexpr KvFormatInfo kQ4Format{KvFormat::q4,
                                 "q4",
                                 "q4_0",
                                 /*by_token=*/false,
                                 /*rotated=*/true,
                                 tile_bytes<KvFormat::q4>,
                                 encode_codebook<kBook4, KvFormat::q4>,
                                 decode_codebook<kBook4, KvFormat::q4>};

}  // namespace quire
