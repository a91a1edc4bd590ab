// A tiny model and the logits PyTorch gave for some tokens (tests/data/models/README.md).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "core/ids.h"
#include "loader/mapped_file.h"
#include "model/weights.h"

namespace quire::testing_support {

struct ModelFixture {
  // `path` below tests/data, without .gguf or .logits.
  explicit ModelFixture(const std::string& path)
      : file(std::move(*MappedFile::open(std::string(QUIRE_TEST_DATA) + "/" + path + ".gguf"))),
        gguf(std::move(*Gguf::parse(file.bytes(), path))),
        config(std::move(*read_config(gguf))),
        weights(std::move(*read_weights(gguf, config))) {
    std::ifstream in(std::string(QUIRE_TEST_DATA) + "/" + path + ".logits", std::ios::binary);
    std::uint32_t sizes[2]{};
    in.read(reinterpret_cast<char*>(sizes), sizeof sizes);
    tokens.resize(sizes[0]);
    logits.resize(std::size_t{sizes[0]} * sizes[1]);
    in.read(reinterpret_cast<char*>(tokens.data()), static_cast<std::streamsize>(4 * tokens.size()));
    in.read(reinterpret_cast<char*>(logits.data()), static_cast<std::streamsize>(4 * logits.size()));
    EXPECT_TRUE(in.good());
  }

  MappedFile file;
  Gguf gguf;
  ModelConfig config;
  Weights weights;
  std::vector<TokenId> tokens;
  std::vector<float> logits;  // [tokens, vocabulary]
};

inline double deviation(const std::vector<float>& x) {
  double sum = 0, squares = 0;
  for (const float v : x) sum += v, squares += double{v} * v;
  const auto n = static_cast<double>(x.size());
  return std::sqrt(squares / n - sum / n * (sum / n));
}

// The largest difference, in standard deviations of the true logits; infinite where something is not a number.
inline double error(const std::vector<float>& truth, const std::vector<float>& got) {
  if (truth.size() != got.size()) return INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double difference = std::abs(double{truth[i]} - got[i]);
    if (!std::isfinite(difference)) return INFINITY;
    largest = std::max(largest, difference);
  }
  return largest / deviation(truth);
}

}  // namespace quire::testing_support
