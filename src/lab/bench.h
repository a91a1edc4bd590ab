// How fast a model runs on this machine: prompts and answers at given depths, batches and cache settings.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quire/engine.h"
#include "quire/session.h"

namespace quire {

struct BenchWork {
  enum class Kind { prefill, decode };
  Kind kind = Kind::prefill;
  std::int64_t tokens = 512;  // computed at once, or generated one after the other by each of the batch
  std::int64_t depth = 0;     // tokens before them
  std::int64_t batch = 1;
  std::int64_t shared_prefix = 0;  // of the depth, the same for all of the batch
};

struct BenchSetting {
  CacheSettings cache;
  int threads = 0;
  std::string kernels = "auto";
  std::int64_t prefill_chunk = 512;
};

struct BenchResult {
  BenchWork work;
  int threads = 0;
  std::vector<double> ms;  // of each repeat: of the prompt, or of a token of each of the batch
  std::uint64_t bytes_per_token = 0;
  double read_bytes = 0;  // a decode step has to read: the file's tensors, and keys and values
  double operations = 0;  // of a prompt

  double median_ms() const;
  double min_ms() const;
  double tokens_per_second() const;  // of all of the batch
};

struct BenchOptions {
  int repeats = 5;
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(std::string_view what)> on_progress;
};

// Measures on one setting, one work after the other; what is prefilled is kept from one to the next where it can be.
// What was timed is checked: tokens one by one must end in the very bits that all of them at once give.
class Bench {
 public:
  static Result<Bench> create(std::shared_ptr<const Model> model, const BenchSetting& setting);

  Result<BenchResult> run(const BenchWork& work, const BenchOptions& options);
  int threads() const { return session_.threads(); }
  std::string_view kernels() const { return session_.kernels(); }

 private:
  Bench(std::shared_ptr<const Model> model, const BenchSetting& setting, Session session)
      : model_(std::move(model)), setting_(setting), session_(std::move(session)) {}

  Result<void> go_to(std::int64_t depth, const BenchOptions& options);
  Result<void> prefill(BenchResult& result, const BenchOptions& options);
  Result<void> decode(BenchResult& result, const BenchOptions& options);
  Result<void> decode_batch(BenchResult& result, const BenchOptions& options);
  std::vector<TokenId> text(std::int64_t tokens, std::int64_t from = 0) const;

  std::shared_ptr<const Model> model_;
  BenchSetting setting_;
  Session session_;
  std::optional<Engine> engine_;  // for batches, made when one comes
};

}  // namespace quire
