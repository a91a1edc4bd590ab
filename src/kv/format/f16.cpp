// f16: IEEE 16-bit floats. Rounds to nearest even: 11 bits of a value, down to 2^-24. Magnitudes
// from 65,520 on become infinite.
//
//   lanes   d 0: [ t 0 | t 1 | ... | t 31 ]    d 1: [ ... ]   2 bytes each
//   rows    t 0: [ d 0 | d 1 | ... ]           t 1: [ ... ]
#include "kv/format/list.h"
#include "kv/format/plain.h"

namespace quire {

constexpr KvFormatInfo kF16Format{KvFormat::f16,
                                  "f16",
                                  "",
                                  /*by_token=*/true,
                                  /*rotated=*/false,
                                  tile_bytes<KvFormat::f16>,
                                  encode_plain<F16Element>,
                                  decode_plain<F16Element>};

}  // namespace quire
