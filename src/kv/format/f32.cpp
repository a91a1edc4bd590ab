// f32: 32-bit floats. Every value comes back as it went in, to the bit.
//
//   lanes   d 0: [ t 0 | t 1 | ... | t 31 ]    d 1: [ ... ]   4 bytes each
//   rows    t 0: [ d 0 | d 1 | ... ]           t 1: [ ... ]
#include "kv/format/list.h"
#include "kv/format/plain.h"

namespace quire {

constexpr KvFormatInfo kF32Format{KvFormat::f32,
                                  "f32",
                                  "",
                                  /*by_token=*/true,
                                  /*rotated=*/false,
                                  tile_bytes<KvFormat::f32>,
                                  encode_plain<F32Element>,
                                  decode_plain<F32Element>};

}  // namespace quire
