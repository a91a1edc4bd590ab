// Decides what the next step computes: who is let in, whose prompt goes on by how much, who has to
// make room. It touches no tensor; the cache it asks for pages touches no kernel.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "cache/kv_cache.h"
#include "engine/cost_model.h"
#include "engine/job.h"
#include "engine/kept_sequences.h"

namespace quire {

class Scheduler {
 public:
  Scheduler(KvCache& cache, const EngineOptions& options, const CostModel& cost)
      : cache_(cache), options_(options), cost_(cost), kept_(cache, options.max_running) {}

  using Jobs = std::list<std::unique_ptr<Job>>;  // in the order in which they go

  void add(std::unique_ptr<Job> job);
  // The next step, with pages for all of it. Empty where nobody can go on. A job that cannot go on even
  // alone is taken out and handed back in `stuck`.
  Step decide(Jobs& stuck);
  // Takes a job out, giving back what it holds.
  std::unique_ptr<Job> remove(Job& job);
  // Gives up what a job holds: it gets in line again. What it computed stays in the index while there is room.
  void preempt(Job& job);

  SequenceId fork(SequenceId from);
  // An answer is complete; somebody may go on from its end.
  void close(const Job& job, Branch& branch);
  // The prompt's pages stay for as long as the request says, unless the room is needed.
  void keep(const Job& job, const Branch& branch);
  std::int64_t unpin(const Job& job);  // ends the terms of others with this prompt: so many there were
  void forget_kept();
  bool forget_one_kept() { return kept_.release_one(); }  // false: there is none

  // An empty sequence for pages that go to a file or come from one. It stays until it is let go, or until the room is
  // needed: then it is no longer in the cache.
  SequenceId hold(const std::string& salt, const KvVisibility& visible);
  void let_go(SequenceId sequence);

  // What would be found of a prompt that is not in line.
  CacheLookup look_up(const Job& job) const;

  void reconsider() { room_changed_ = true; }  // a reader caught up
  const Jobs& running() const { return running_; }
  const Jobs& waiting() const { return waiting_; }
  std::uint64_t preemptions() const { return preemptions_; }
  double prefill_budget_ms() const { return prefill_budget_ms_; }

 private:
  static void insert(Jobs& into, Jobs& from, Jobs::iterator job);
  std::int64_t lacking(const Branch& branch) const;
  std::int64_t sequences() const;  // that run
  void admit();
  bool try_admit(Job& job);
  void explain_hit(Job& job) const;
  bool waits_for_pages(const Job& job) const;
  void open(Job& job);
  void reuse(const Job& job, Branch& branch);
  void leave(Job& job);
  Job& victim() const;
  bool preempt_for(const Job& job);

  std::int64_t chunk(const Job& job, const Branch& branch, std::int64_t most) const;
  std::vector<TokenId> guesses(const Job& job, Branch& branch) const;
  void add_answers(Step& step);
  void add_prompts(Step& step);
  void add_work(Step& step, Job& job, Branch& branch, std::int64_t tokens, std::vector<TokenId> drafts);
  std::uint64_t fresh_bytes(const Step& step, const StepWant& more) const;
  void reserve(Step& step, Jobs& stuck);
  void ask_for_scores(Step& step) const;

  KvCache& cache_;
  const EngineOptions& options_;
  const CostModel& cost_;
  Jobs waiting_, running_;
  KeptSequences kept_;
  SequenceId next_sequence_ = 1;
  bool room_changed_ = true;  // since somebody was last refused
  std::uint64_t preemptions_ = 0;
  double prefill_budget_ms_ = 0;
};

}  // namespace quire
