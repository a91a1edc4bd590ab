// What a step's results mean: tokens are drawn and streamed, pages become part of their sequences,
// answers end.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/cost_model.h"
#include "engine/runner.h"
#include "engine/scheduler.h"

namespace quire {

struct EngineTotals {
  std::uint64_t submitted = 0, finished = 0, cancelled = 0, refused = 0, failed = 0;
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0, computed_tokens = 0;
  std::uint64_t drafted_tokens = 0, accepted_tokens = 0;
  std::uint64_t steps = 0, first_tokens = 0;
  double first_token_ms = 0;
};

class Committer {
 public:
  Committer(const Model& model, KvCache& cache, Scheduler& scheduler, const CostModel& cost, EngineTotals& totals)
      : model_(model), cache_(cache), scheduler_(scheduler), cost_(cost), totals_(totals) {}

  // Draws the tokens that depend on nothing but their logits, on all threads; commit() then finds them drawn.
  static void draw_ahead(Step& step, Runner& runner);
  void commit(Step& step, const Runner& runner);
  // Ends a job that is in line or running.
  void cancel(Job& job);
  // Before a job gets in line: false, and it is over, where its answer can never be complete.
  bool begin(std::unique_ptr<Job>& job);
  // Ends one that was taken out.
  void fail(std::unique_ptr<Job> job, Error error);
  void end_full(std::unique_ptr<Job> job);

 private:
  void score_prompt(const Work& work, const Runner& runner);
  void embed(const Work& work, const Runner& runner);
  static void tell_progress(const Work& work);
  // A guess that was drawn from chances, or a token that was drawn already; none of both: draw afresh.
  struct Guess {
    TokenId token = 0;
    std::span<const TokenChance> chances = {};
    std::optional<TokenId> drawn = {};
  };
  TokenId choose(const Job& job, Branch& branch, std::span<const float> logits, const Guess& guess);
  static std::int64_t tokens_left(const Job& job, const Branch& branch);
  std::span<const std::uint64_t> allowed(const Job& job, const Branch& branch);
  TokenId take(Job& job, Branch& branch, std::span<const float> logits, const Guess& guess);
  std::int64_t draw(Work& work, const Runner& runner);
  void split(Job& job, std::span<const float> logits);
  void advance_beams(Job& job, const Step& step, const Runner& runner);
  void end_beams(Job& job);
  void finish(Job& job);
  void report(Job& job, const Result<void>& how);

  const Model& model_;
  KvCache& cache_;
  Scheduler& scheduler_;
  const CostModel& cost_;
  EngineTotals& totals_;
  std::int64_t rows_ = 0;            // of the step at hand
  std::vector<std::uint64_t> mask_;  // of the token at hand
};

}  // namespace quire
