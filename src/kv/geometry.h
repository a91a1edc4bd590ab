// The shape of a model's key/value cache, and what it costs.
#pragma once

#include <cstdint>
#include <optional>

namespace quire {

struct KvGeometry {
  int layers;
  int kv_heads;
  int head_dim;

  // Values in one token's keys, or values, of one layer.
  std::int64_t row_values() const { return std::int64_t{kv_heads} * head_dim; }

  // 2 (keys and values) x layers x kv_heads x head_dim x bytes; nothing if that overflows.
  std::optional<std::uint64_t> bytes_per_token(std::uint64_t bytes_per_value) const;
  std::optional<std::uint64_t> bytes(std::uint64_t tokens, std::uint64_t bytes_per_value) const;
};

}  // namespace quire
