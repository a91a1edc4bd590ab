#include "kv/format.h"

#include <array>

#include "core/check.h"
#include "kv/format/list.h"
#include "kv/format/plain.h"

namespace quire {

std::span<const KvFormatInfo> kv_formats() {
  static const std::array kFormats{kF32Format, kF16Format, kBf16Format, kFp8Format, kQ8Format,
                                   kQ5Format,  kQ4Format,  kQ2Format,   kK4Format,  kK2Format};
  return kFormats;
}

const KvFormatInfo& info(KvFormat format) { return kv_formats()[static_cast<std::size_t>(format)]; }

std::optional<KvFormat> find_kv_format(std::string_view name) {
  for (const KvFormatInfo& format : kv_formats()) {
    if (!name.empty() && (name == format.name || name == format.alias)) return format.format;
  }
  return std::nullopt;
}

void write_token(KvFormat format, KvOrder order, std::byte* tile, std::int64_t token, const float* values,
                 std::int64_t dim) {
  QUIRE_ASSERT(info(format).by_token, "this format is encoded by the page");
  if (format == KvFormat::f32) return write_plain_token<F32Element>(order, tile, token, values, dim);
  if (format == KvFormat::f16) return write_plain_token<F16Element>(order, tile, token, values, dim);
  write_plain_token<Bf16Element>(order, tile, token, values, dim);
}

void read_token(KvFormat format, KvOrder order, const std::byte* tile, std::int64_t token, std::int64_t dim,
                float* values) {
  QUIRE_ASSERT(info(format).by_token, "this format is decoded by the page");
  if (format == KvFormat::f32) return read_plain_token<F32Element>(order, tile, token, dim, values);
  if (format == KvFormat::f16) return read_plain_token<F16Element>(order, tile, token, dim, values);
  read_plain_token<Bf16Element>(order, tile, token, dim, values);
}

}  // namespace quire
