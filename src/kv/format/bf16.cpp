// bf16: the upper halves of 32-bit floats. Rounds to nearest even: 8 bits of a value, over the
// range of a 32-bit float.
//
//   lanes   d 0: [ t 0 | t 1 | ... | t 31 ]    d 1: [ ... ]   2 bytes each
//   rows    t 0: [ d 0 | d 1 | ... ]           t 1: [ ... ]
#include "kv/format/list.h"
#include "kv/format/plain.h"

namespace quire {

constexpr KvFormatInfo kBf16Format{KvFormat::bf16,
                                   "bf16",
                                   "",
                                   /*by_token=*/true,
                                   /*rotated=*/false,
                                   tile_bytes<KvFormat::bf16>,
                                   encode_plain<Bf16Element>,
                                   decode_plain<Bf16Element>};

}  // namespace quire
