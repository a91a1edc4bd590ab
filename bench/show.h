// What the shows share: each measures one promise of the engine on a real model and says whether it
// was kept.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/fail.h"
#include "quire/engine.h"

namespace quire::bench {

using Json = nlohmann::ordered_json;
using Tokens = std::vector<TokenId>;

struct Setting {
  std::string path;
  int threads = 0;
  std::string kernels = "auto";
  std::shared_ptr<const Model> model;

  Result<Engine> start(EngineOptions options = {}) const;
};

// What was measured, and the bars that were set.
class Shown {
 public:
  Json figures;
  void require(const std::string& what, bool met);
  bool met() const { return met_; }
  Json document() const;

 private:
  Json bars_ = Json::array();
  bool met_ = true;
};

using Show = std::function<Result<Shown>(const Setting&)>;

// Each adds its subcommand, which sets `chosen`.
void add_random(CLI::App& app, Show& chosen);
void add_sharing(CLI::App& app, Show& chosen);
void add_stall(CLI::App& app, Show& chosen);
void add_chat(CLI::App& app, Show& chosen);
void add_lookup(CLI::App& app, Show& chosen);
void add_schemas(CLI::App& app, Show& chosen);

void say(const std::string& line);  // progress, to standard error

double median(std::vector<double> values);
double fraction_below(std::vector<double> values, double fraction);  // the value at that fraction

// The same numbers from a seed with every standard library, unlike the standard distributions.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  std::int64_t log_uniform(std::int64_t least, std::int64_t most);

 private:
  std::mt19937_64 random_;
};

// So many tokens of made-up sentences.
Tokens made_up(const Model& model, Dice& dice, std::int64_t count);

Request greedy(Tokens tokens, std::int64_t count);
Result<Completion> answer(Engine& engine, Request request);
void wait_until_idle(const Engine& engine);

}  // namespace quire::bench
