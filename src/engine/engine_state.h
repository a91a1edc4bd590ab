// What an engine consists of.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cache/saved_prompt.h"
#include "engine/committer.h"
#include "engine/cost_model.h"
#include "engine/draft_model.h"
#include "engine/runner.h"
#include "engine/scheduler.h"
#include "grammar/grammar_cache.h"
#include "quire/engine.h"

namespace quire {

struct Engine::State {
  State(std::shared_ptr<const Model> model_, const EngineOptions& options_, const Ops& ops_,
        std::unique_ptr<KvCache> cache_)
      : model(std::move(model_)),
        options(options_),
        ops(ops_),
        cache(std::move(cache_)),
        cost(model->parts().config),
        runner(model->parts(), ops, options.threads),
        scheduler(*cache, options, cost),
        committer(*model, *cache, scheduler, cost, totals) {}

  Result<std::unique_ptr<Job>> accept(Request request);
  Result<std::shared_ptr<CompiledGrammar>> grammar_for(const OutputFormat& format);
  Result<void> check_fits(const Job& job) const;
  void wake();
  void run();
  Step decide(std::vector<std::unique_ptr<Job>> arrived);
  void compute_and_commit(Step& step);
  void cancel_all();

  template <class Work>
  auto locked(Work&& work) const {
    const std::scoped_lock lock(mutex);
    return work();
  }
  class Hold;
  PageSpace page_space() const;
  Result<void> check_saves(const Job& job) const;
  Result<SavedPrompt> save(const Job& job, const std::string& path);
  Result<SavedPrompt> restore(SavedPromptReader& reader, const std::string& salt);
  SavedPrompt looked_up(const Job& job, SavedPrompt saved, Clock::time_point start);

  std::shared_ptr<const Model> model;
  EngineOptions options;
  const Ops& ops;
  std::vector<std::pair<TokenId, float>> never_end;  // a bias against every token that ends an answer

  // Held while deciding and committing, not while computing.
  mutable std::mutex mutex;
  std::unique_ptr<KvCache> cache;
  CostModel cost;
  Runner runner;
  std::unique_ptr<DraftModel> draft;  // used by the engine's thread alone
  Scheduler scheduler;
  EngineTotals totals;
  Committer committer;

  std::mutex grammar_mutex;
  std::unique_ptr<GrammarCache> grammars;  // made when first asked for

  std::mutex inbox_mutex;
  std::condition_variable signal;
  std::vector<std::unique_ptr<Job>> inbox;
  bool awake = false, stopping = false;
  std::int64_t waiting = 0;  // jobs in line when last looked at
  std::uint64_t arrivals = 0;
  std::atomic<std::uint64_t> refused{0};
  std::thread thread;
};

}  // namespace quire
