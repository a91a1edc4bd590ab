// One of these per format, each in the file of its name.
#pragma once

#include "kv/format/layouts.h"

namespace quire {

extern const KvFormatInfo kF32Format;
extern const KvFormatInfo kF16Format;
extern const KvFormatInfo kBf16Format;
extern const KvFormatInfo kFp8Format;
extern const KvFormatInfo kQ8Format;
extern const KvFormatInfo kQ5Format;
extern const KvFormatInfo kQ4Format;
extern const KvFormatInfo kQ2Format;
extern const KvFormatInfo kK4Format;
extern const KvFormatInfo kK2Format;

// What KvFormatInfo::tile_bytes points to.
template <KvFormat format>
std::int64_t tile_bytes(KvOrder order, std::int64_t dim) {
  return kv_tile_parts(format, order, dim).bytes;
}

}  // namespace quire
