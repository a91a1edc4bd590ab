#include "kv/geometry.h"

#include "core/checked_math.h"

namespace quire {

std::optional<std::uint64_t> KvGeometry::bytes(std::uint64_t tokens, std::uint64_t bytes_per_value) const {
  if (layers < 0 || kv_heads < 0 || head_dim < 0) return std::nullopt;
  const auto size = [](int n) { return CheckedSize(static_cast<std::uint64_t>(n)); };
  return (CheckedSize(2) * size(layers) * size(kv_heads) * size(head_dim) * CheckedSize(tokens) *
          CheckedSize(bytes_per_value))
      .get();
}

std::optional<std::uint64_t> KvGeometry::bytes_per_token(std::uint64_t bytes_per_value) const {
  return bytes(1, bytes_per_value);
}

}  // namespace quire
