// Data of all kinds, and the groups of a tile that share a scale.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kv/format.h"

namespace quire::testing_support {

inline constexpr KvOrder kOrders[] = {KvOrder::lanes, KvOrder::rows};
inline constexpr std::int64_t kDims[] = {1, 20, 31, 33, 64, 72, 96, 128, 256, 512};

inline std::string describe(KvFormat format, KvOrder order, std::int64_t dim) {
  return std::string(info(format).name) + (order == KvOrder::lanes ? " lanes " : " rows ") + std::to_string(dim);
}

inline std::vector<float> gaussian(std::int64_t count, unsigned seed, float deviation = 1.f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.f, deviation);
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& v : x) v = normal(generator);
  return x;
}

enum class Data { gaussian, uniform, shifted, outlier, constant, zero, denormal, small, alternating, large };
inline constexpr Data kAllData[] = {Data::gaussian, Data::uniform,  Data::shifted, Data::outlier,     Data::constant,
                                    Data::zero,     Data::denormal, Data::small,   Data::alternating, Data::large};

// [32, dim]
inline std::vector<float> make_rows(Data kind, std::int64_t dim, unsigned seed) {
  std::vector<float> x = gaussian(kPageTokens * dim, seed);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::int64_t token = static_cast<std::int64_t>(i) / dim, d = static_cast<std::int64_t>(i) % dim;
    switch (kind) {
      case Data::gaussian:
        break;
      case Data::uniform:
        x[i] = std::erf(x[i]);
        break;
      case Data::shifted:
        x[i] = 5.f + 0.1f * x[i];
        break;
      case Data::outlier:
        if (d == 7) x[i] = 40.f + x[i];
        break;
      case Data::constant:
        x[i] = -3.7f;
        break;
      case Data::zero:
        x[i] = 0.f;
        break;
      case Data::denormal:
        x[i] *= 1e-40f;
        break;
      case Data::small:
        x[i] *= 1e-5f;
        break;
      case Data::alternating:
        x[i] = (token + d) % 2 == 0 ? 1.25f : -1.25f;
        break;
      case Data::large:
        x[i] = std::fmax(-60000.f, std::fmin(60000.f, 20000.f * x[i]));
        break;
    }
  }
  return x;
}

inline std::vector<std::byte> encoded(KvFormat format, KvOrder order, const std::vector<float>& rows) {
  const std::int64_t dim = static_cast<std::int64_t>(rows.size()) / kPageTokens;
  // The encoder must set every byte.
  std::vector<std::byte> tile(static_cast<std::size_t>(info(format).tile_bytes(order, dim)), std::byte{0xA5});
  info(format).encode(order, rows.data(), dim, tile.data());
  return tile;
}

inline std::vector<float> decoded(KvFormat format, KvOrder order, const std::vector<std::byte>& tile,
                                  std::int64_t dim) {
  std::vector<float> rows(static_cast<std::size_t>(kPageTokens * dim), NAN);
  info(format).decode(order, tile.data(), dim, rows.data());
  return rows;
}

inline std::vector<float> round_trip(KvFormat format, KvOrder order, const std::vector<float>& rows) {
  const std::int64_t dim = static_cast<std::int64_t>(rows.size()) / kPageTokens;
  return decoded(format, order, encoded(format, order, rows), dim);
}

// Indices into [32, dim] of each set of values that shares a scale; one value each without scales.
inline std::vector<std::vector<std::size_t>> groups_of(KvFormat format, KvOrder order, std::int64_t dim) {
  std::vector<std::vector<std::size_t>> groups;
  const auto index = [dim](std::int64_t t, std::int64_t d) { return static_cast<std::size_t>(t * dim + d); };
  const bool by_channel = (format == KvFormat::k4 || format == KvFormat::k2) && order == KvOrder::lanes;
  if (by_channel) {
    for (std::int64_t d = 0; d < dim; ++d) {
      for (groups.emplace_back(); groups.back().size() < 32;) {
        groups.back().push_back(index(static_cast<std::int64_t>(groups.back().size()), d));
      }
    }
    return groups;
  }
  const std::int64_t size = info(format).by_token ? 1 : format == KvFormat::fp8 || format == KvFormat::q8 ? 64 : 32;
  for (std::int64_t t = 0; t < kPageTokens; ++t) {
    for (std::int64_t d = 0; d < dim; ++d) {
      if (d % size == 0) groups.emplace_back();
      groups.back().push_back(index(t, d));
    }
  }
  return groups;
}

}  // namespace quire::testing_support
