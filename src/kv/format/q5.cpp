// q5: 5 bits of a codebook of 32 levels, after rotation; the arithmetic is in codebook.h.
//
//   lanes   codes  d 0: [ t 0,16 | t 1,17 | ... | t 15,31 ]      d 1: ...   16 bytes, first named in bits 0-3
//           fifth  d 0: [ bit t is token t ]                     d 1: ...   4 bytes
//           scales group 0: [ t 0 | ... | t 31 ]                 group 1: ...   bf16
//   rows    codes  t 0: group 0: [ d 0,16 | ... | d 15,31 ] group 1: ...   t 1: ...
//           fifth  t 0: group 0: [ bit j is dimension j ]   group 1: ...   t 1: ...
//           scales t 0: [ group 0 | group 1 | ... ]              t 1: ...
#include "kv/format/codebook.h"
#include "kv/format/list.h"

namespace quire {

constexpr KvFormatInfo kQ5Format{KvFormat::q5,
                                 "q5",
                                 "q5_0",
                                 /*by_token=*/false,
                                 /*rotated=*/true,
                                 tile_bytes<KvFormat::q5>,
                                 encode_codebook<kBook5, KvFormat::q5>,
                                 decode_codebook<kBook5, KvFormat::q5>};

}  // namespace quire
