#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "quire/engine.h"

namespace quire::testing_support {

inline std::shared_ptr<const Model> load(const std::string& name) {
  auto model = Model::load(std::string(QUIRE_TEST_DATA) + "/models/" + name + ".gguf");
  EXPECT_TRUE(model.ok()) << model.error().message;
  return *model;
}

inline Engine start(const std::shared_ptr<const Model>& model, EngineOptions options = {}) {
  options.threads = 2;
  options.poison = true;
  auto engine = Engine::create(model, options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return std::move(*engine);
}

inline std::vector<TokenId> prompt(int length, int seed = 1) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < length; ++i) tokens.push_back((i * 37 + seed * 11) % 95 + 1);
  return tokens;
}

// Not greedy: tiny random models fall into a loop where nothing is left to chance.
inline Request ask(std::vector<TokenId> tokens, std::int64_t count, std::uint64_t seed = 5) {
  Request request;
  request.tokens = std::move(tokens);
  request.sampling.temperature = 0.9f;
  request.sampling.seed = seed;
  request.max_tokens = count;
  request.ignore_end = true;
  return request;
}

inline Completion run(Engine& engine, Request request) {
  auto stream = engine.submit(std::move(request));
  EXPECT_TRUE(stream.ok()) << stream.error().message;
  auto completion = stream->wait();
  EXPECT_TRUE(completion.ok()) << completion.error().message;
  return *completion;
}

}  // namespace quire::testing_support
