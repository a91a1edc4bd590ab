// What every experiment works with: the model, a text, and somebody who wants to know how far it is.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "engine/sampler.h"
#include "kernels/machine_speed.h"
#include "quire/engine.h"
#include "quire/session.h"

namespace quire::lab {

using Tokens = std::vector<TokenId>;

// Rounding to 8 bits would hide what caches cost.
inline constexpr const char* kLabKernels = "exact";

Request greedy_request(Tokens tokens, std::int64_t generated);

// One key in the cache.
struct CachePlace {
  std::int64_t layer = 3, head = 0, position = 57;
};

struct WorkbenchOptions {
  bool quick = false;
  int threads = 0;  // 0: as many as this process may use
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(double part, std::string_view what)> on_progress;
  std::optional<CachePlace> broken_key;  // what `break` damages; else the usual one, as far as the model has it
};

class Workbench {
 public:
  Workbench(std::shared_ptr<const Model> model, Tokens text, WorkbenchOptions options)
      : model_(std::move(model)), text_(std::move(text)), options_(std::move(options)) {}

  const std::shared_ptr<const Model>& model() const { return model_; }
  const ModelInfo& info() const { return model_->info(); }
  bool quick() const { return options_.quick; }
  int threads() const { return options_.threads; }
  const std::atomic<bool>* cancel() const { return options_.cancel; }
  CachePlace broken_key() const;
  template <class T>
  T choose(T full, T quick) const {
    return options_.quick ? std::move(quick) : std::move(full);
  }

  std::span<const TokenId> text() const { return text_; }
  // `count` tokens from the text, which begins anew where it ends; with BOS first where the model asks for it.
  Tokens prompt(std::int64_t from, std::int64_t count) const;
  // Those of the lengths that leave room for `more` tokens in the model's context.
  std::vector<std::int64_t> within_context(std::vector<std::int64_t> lengths, std::int64_t more) const;

  Result<Session> open(const CacheSettings& cache = {}, std::int64_t context = 0) const;
  Result<Engine> start(EngineOptions options) const;
  // What this machine does at best; measured when it is first asked for.
  const MachineSpeed& machine();

  // How much of the experiment is done, 0 to 1, and what comes next. Fails once somebody wants it to stop.
  Result<void> at(double part, std::string_view what) const;

 private:
  std::shared_ptr<const Model> model_;
  Tokens text_;
  WorkbenchOptions options_;
  std::optional<MachineSpeed> machine_;
};

}  // namespace quire::lab
