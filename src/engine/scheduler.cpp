#include "engine/scheduler.h"

#include <algorithm>

#include "core/check.h"
#include "engine/common_prefix.h"
#include "model/attention_scores.h"

namespace quire {
namespace {

// Policies that look at attention sum it up by these, so that sums do not depend on what else runs.
constexpr std::int64_t kScoredChunk = 64;
constexpr std::int64_t kMostDraftedByModel = 4;
// Every row of a chunk is projected to the vocabulary where a prompt is scored: that takes memory.
constexpr std::int64_t kProjectedChunk = 64;

KeptSequences::Kind kind(const Job& job) { return {job.request.salt, job.policy->name()}; }

// was_evicted: asked only where it decides, since it looks along the prompt.
template <class WasEvicted>
MissReason miss_reason(const Job& job, std::int64_t found, bool shares_no_more, WasEvicted&& was_evicted) {
  if (found == job.prompt - 1) return MissReason::none;
  if (job.reusable(job.branches[0]) < job.prompt || shares_no_more) return MissReason::policy;
  return was_evicted() ? MissReason::evicted : MissReason::differs;
}

std::vector<StepWant> wants_of(const Step& step) {
  std::vector<StepWant> wants;
  for (const Work& work : step.works) wants.push_back({work.branch->sequence, work.rows()});
  return wants;
}

}  // namespace

void Scheduler::insert(Jobs& into, Jobs& from, Jobs::iterator job) {
  const auto at = std::ranges::find_if(into, [&](const auto& other) { return (*job)->before(*other); });
  into.splice(at, from, job);
}

void Scheduler::add(std::unique_ptr<Job> job) {
  Jobs one;
  one.push_back(std::move(job));
  insert(waiting_, one, one.begin());
  room_changed_ = true;
}

std::unique_ptr<Job> Scheduler::remove(Job& job) {
  Jobs& list = job.running ? running_ : waiting_;
  leave(job);
  const auto at = std::ranges::find(list, &job, &std::unique_ptr<Job>::get);
  std::unique_ptr<Job> taken = std::move(*at);
  list.erase(at);
  return taken;
}

void Scheduler::preempt(Job& job) {
  QUIRE_ASSERT(job.running, "only what runs can be preempted");
  const auto at = std::ranges::find(running_, &job, &std::unique_ptr<Job>::get);
  leave(job);
  ++job.report.preemptions;
  ++preemptions_;
  insert(waiting_, running_, at);
}

std::int64_t Scheduler::lacking(const Branch& branch) const {
  return branch.done ? 0 : std::ssize(branch.tokens) - cache_.length(branch.sequence);
}

std::int64_t Scheduler::sequences() const {
  std::int64_t count = 0;
  for (const auto& job : running_) count += job->sequences();
  return count;
}

void Scheduler::open(Job& job) {
  for (Branch& branch : job.branches) {
    if (branch.done) continue;
    branch.sequence = next_sequence_++;
    const auto opened = cache_.open(branch.sequence, {job.request.salt, job.policy->visible()});
    QUIRE_ASSERT(opened.ok(), "sequence ids are never used twice");
    reuse(job, branch);
  }
  job.running = true;
}

// Takes over what is there already of the tokens that need not be computed once more.
void Scheduler::reuse(const Job& job, Branch& branch) {
  const auto reusable = std::span(branch.tokens).first(static_cast<std::size_t>(job.reusable(branch)));
  if (reusable.empty()) return;
  const std::int64_t found = cache_.reuse(branch.sequence, reusable);
  // The index knows whole pages; a sequence that was kept may agree a little further.
  const auto match = kept_.longest(kind(job), reusable);
  const std::int64_t shared = std::min(match.tokens, std::ssize(reusable) - 1);
  if (shared <= found) return;
  const SequenceId copy = fork(match.sequence);
  if (*cache_.rollback(copy, shared) > found) {
    cache_.release(branch.sequence);
    branch.sequence = copy;
  } else {
    cache_.release(copy);
  }
}

void Scheduler::leave(Job& job) {
  if (!job.running) return;
  for (Branch& branch : job.branches) {
    if (!branch.done) cache_.release(branch.sequence);
  }
  job.running = false;
  room_changed_ = true;
}

void Scheduler::close(const Job& job, Branch& branch) {
  cache_.checkpoint(branch.sequence);
  branch.done = true;
  room_changed_ = true;
  if (options_.share_prefixes && !job.scored) {
    kept_.add(branch.sequence, kind(job));
  } else {
    cache_.release(branch.sequence);
  }
}

SequenceId Scheduler::fork(SequenceId from) {
  const auto forked = cache_.fork(from, next_sequence_);
  QUIRE_ASSERT(forked.ok(), "sequence ids are never used twice");
  return next_sequence_++;
}

void Scheduler::keep(const Job& job, const Branch& branch) {
  kept_.add(fork(branch.sequence), kind(job), Clock::now() + job.request.keep);
}

std::int64_t Scheduler::unpin(const Job& job) { return kept_.release_pinned(kind(job), job.branches[0].tokens); }

void Scheduler::forget_kept() {
  while (forget_one_kept()) {
  }
}

// Somebody computes pages that this one could use: it is quicker to wait.
bool Scheduler::waits_for_pages(const Job& job) const {
  const Branch& own = job.branches[0];
  if (!options_.share_prefixes) return false;
  const auto tokens = std::span(own.tokens).first(static_cast<std::size_t>(job.reusable(own)));
  for (const auto& other : running_) {
    const Branch& branch = other->branches[0];
    if (other->paused || branch.done || lacking(branch) <= 1 || other->request.salt != job.request.salt) continue;
    const std::int64_t computed = cache_.length(branch.sequence);
    const std::int64_t shared = common_prefix(branch.tokens, tokens) / kPageTokens * kPageTokens;
    if (shared < computed + kPageTokens) continue;
    // Where the paths part, layers with a window must leave their pages behind.
    if (other->branch_point <= computed || shared < other->branch_point) other->branch_point = shared;
    return true;
  }
  return false;
}

// Who would be missed least: somebody whose reader has fallen behind, or else the last in order.
Job& Scheduler::victim() const {
  for (auto job = running_.rbegin(); job != running_.rend(); ++job) {
    if ((*job)->paused) return **job;
  }
  return *running_.back();
}

// Makes room for a job that is to be let in, where another has to stand back for it.
bool Scheduler::preempt_for(const Job& job) {
  if (kept_.release_one()) return true;
  Job& out = victim();
  if (!out.paused && out.request.priority >= job.request.priority) return false;
  preempt(out);
  return true;
}

// Opens the job's sequences where there is room for all that it and the others lack.
bool Scheduler::try_admit(Job& job) {
  while (!running_.empty() && sequences() + job.sequences() > options_.max_running) {
    if (!preempt_for(job)) return false;
  }
  open(job);
  const auto add_wants = [&](const Job& one, std::vector<StepWant>& wants) {
    for (const Branch& branch : one.branches) {
      if (!branch.done) wants.push_back({branch.sequence, lacking(branch)});
    }
  };
  // Alone it is let in whatever it needs: whether it can go on is seen step by step.
  while (!running_.empty()) {
    std::vector<StepWant> wants;
    add_wants(job, wants);
    for (const auto& other : running_) add_wants(*other, wants);
    if (cache_.could_prepare(wants)) break;
    if (!preempt_for(job)) {
      leave(job);
      return false;
    }
  }
  return true;
}

void Scheduler::explain_hit(Job& job) const {
  const Branch& branch = job.branches[0];
  RequestReport& report = job.report;
  report.cached_tokens = report.first_divergent = cache_.length(branch.sequence);
  report.miss = miss_reason(job, report.cached_tokens, cache_.shares_no_more(branch.sequence),
                            [&] { return cache_.was_evicted(branch.sequence, branch.tokens); });
}

CacheLookup Scheduler::look_up(const Job& job) const {
  const Branch& branch = job.branches[0];
  const auto reusable = std::span(branch.tokens).first(static_cast<std::size_t>(job.reusable(branch)));
  CacheLookup result{job.prompt, 0, MissReason::policy};
  if (reusable.empty()) return result;
  const KvCache::Found found = cache_.find(reusable, {job.request.salt, job.policy->visible()});
  const std::int64_t kept = std::min(kept_.longest(kind(job), reusable).tokens, std::ssize(reusable) - 1);
  result.cached_tokens = std::max(found.tokens, kept);
  result.miss = miss_reason(job, result.cached_tokens, found.shares_no_more, [&] { return found.evicted; });
  return result;
}

void Scheduler::admit() {
  if (!room_changed_) return;
  room_changed_ = false;
  const auto now = Clock::now();
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    Job& job = **at;
    if (!job.stream->has_room()) {
      ++at;
      continue;
    }
    if (waits_for_pages(job)) {
      room_changed_ = true;  // ask again
      ++at;
      continue;
    }
    if (!try_admit(job)) return;
    if (job.admitted == Clock::time_point{}) {
      job.admitted = now;
      explain_hit(job);
    }
    const auto next = std::next(at);
    insert(running_, waiting_, at);
    at = next;
  }
}

std::int64_t Scheduler::chunk(const Job& job, const Branch& branch, std::int64_t most) const {
  const std::int64_t at = cache_.length(branch.sequence);
  std::int64_t count = std::min(lacking(branch), most);
  if (job.scores_prompt()) count = std::min(count, kProjectedChunk);
  if (job.scored) {
    // Every time alike, whatever there is room for; answers are gone through again token by token.
    if (at >= job.prompt) return 1;
    return std::min(kScoredChunk - at % kScoredChunk, job.prompt - at);
  }
  if (job.beams) count = std::min(count, lacking(branch) - 1);  // all beams take the last one together
  if (at < job.branch_point) count = std::min(count, job.branch_point - at);
  return count;
}

void Scheduler::add_work(Step& step, Job& job, Branch& branch, std::int64_t tokens, std::vector<TokenId> drafts) {
  Work work;
  work.job = &job;
  work.branch = &branch;
  work.first = cache_.length(branch.sequence);
  work.tokens = tokens;
  work.drafts = std::move(drafts);
  work.logits_from = work.complete() ? tokens - 1 : work.rows();
  if (job.scores_prompt())
    work.logits_from = std::clamp(job.next_scored - 1 - work.first, std::int64_t{0}, work.logits_from);
  work.hidden_from = tokens;
  if (!job.embedded && job.request.embedding == Embedding::mean) work.hidden_from = 0;
  if (!job.embedded && job.request.embedding == Embedding::last && work.complete()) work.hidden_from = tokens - 1;
  step.works.push_back(std::move(work));
}

// Guesses at what follows, or room for them where a draft model makes them.
std::vector<TokenId> Scheduler::guesses(const Job& job, Branch& branch) const {
  const std::int64_t length = std::ssize(branch.tokens), generated = length - job.prompt;
  if (job.request.speculation == Speculation::off || job.scored || job.beams || generated == 0) return {};
  std::int64_t most = job.limit - length;
  if (job.request.max_tokens >= 0) most = std::min(most, job.request.max_tokens - generated - 1);
  if (most <= 0) return {};
  most = std::min(most, branch.drafts.wanted());
  if (job.request.speculation == Speculation::prompt_lookup) return branch.lookup.propose(branch.tokens, most);
  return std::vector<TokenId>(static_cast<std::size_t>(std::min(most, kMostDraftedByModel)), 0);
}

void Scheduler::add_answers(Step& step) {
  for (const auto& job : running_) {
    const bool was_paused = std::exchange(job->paused, !job->stream->has_room());
    if (job->paused && !was_paused) room_changed_ = true;  // others may have its place
    if (job->paused) continue;
    if (job->beams && !std::ranges::all_of(job->branches, [&](const Branch& b) { return lacking(b) == 1; })) continue;
    for (Branch& branch : job->branches) {
      if (lacking(branch) != 1) continue;
      add_work(step, *job, branch, 1, guesses(*job, branch));
    }
  }
}

// Of a step that would do this too.
std::uint64_t Scheduler::fresh_bytes(const Step& step, const StepWant& more) const {
  std::vector<StepWant> wants = wants_of(step);
  wants.push_back(more);
  return cache_.fresh_bytes(wants);
}

void Scheduler::add_prompts(Step& step) {
  std::int64_t answers = 0, rows = 0;
  for (const Work& work : step.works) answers += work.rows();
  // How long prompts may hold answers up depends on what answers alone take. Where the line never empties no step would
  // show that: one does without prompts.
  if (answers > 0 && options_.prefill_budget_ms == 0 && !cost_.knows_decode(answers)) return;
  double left_ms = 0;
  if (answers > 0) {
    left_ms = options_.prefill_budget_ms > 0 ? options_.prefill_budget_ms : cost_.prompt_budget_ms(answers);
  }
  const double budget_ms = left_ms;
  std::uint64_t counted = 0;  // of the step's fresh bytes
  for (const auto& job : running_) {
    if (job->paused) continue;
    for (Branch& branch : job->branches) {
      if (lacking(branch) <= 1) continue;
      const std::int64_t depth = cache_.length(branch.sequence);
      std::int64_t most = options_.max_batch - answers - rows;
      if (answers > 0 && most > 0) {
        const auto rows_now = [&] { return rows > 0 && left_ms <= 0 ? 0 : cost_.rows_within(left_ms, depth, most); };
        const std::uint64_t fresh = fresh_bytes(step, {branch.sequence, rows_now()});
        left_ms -= cost_.fresh_ms(fresh - std::min(fresh, counted));
        counted = std::max(fresh, counted);
        most = rows_now();
      }
      if (most <= 0) break;
      const std::int64_t count = chunk(*job, branch, most);
      add_work(step, *job, branch, count, {});
      rows += count;
      left_ms -= cost_.prefill_ms(cost_.prefill_work(count, depth));
    }
  }
  if (answers > 0 && rows > 0) prefill_budget_ms_ = budget_ms;
}

// Pages for the whole step: those nobody uses make room, then those that are only held, then the
// job that would be missed least.
void Scheduler::reserve(Step& step, Jobs& stuck) {
  while (!step.empty()) {
    const std::vector<StepWant> wants = wants_of(step);
    step.fresh_bytes = cache_.fresh_bytes(wants);
    auto plan = cache_.prepare(wants);
    if (plan.ok()) {
      step.plan = std::move(*plan);
      ask_for_scores(step);
      return;
    }
    if (kept_.release_one()) continue;
    Job& out = victim();
    std::erase_if(step.works, [&out](const Work& work) { return work.job == &out; });
    if (running_.size() == 1) {
      stuck.push_back(remove(out));
    } else {
      preempt(out);
    }
  }
}

void Scheduler::ask_for_scores(Step& step) const {
  for (std::size_t i = 0; i < step.works.size(); ++i) {
    Work& work = step.works[i];
    const RetentionState state = cache_.retention_state(work.branch->sequence, work.job->prompt);
    work.scores.rows = work.job->policy->scored_rows(state, work.rows());
    if (work.scores.rows == 0) continue;
    const std::int64_t count =
        score_count(cache_.layouts(), cache_.layer_map(), step.plan.tables[i], work.first + work.rows());
    work.score_sums.assign(static_cast<std::size_t>(count), 0.f);
    work.scores.sums = work.score_sums.data();
  }
}

Step Scheduler::decide(Jobs& stuck) {
  kept_.release_expired(Clock::now());
  Step step;
  do {
    admit();
    add_answers(step);
    add_prompts(step);
  } while (step.empty() && room_changed_ && !waiting_.empty());
  reserve(step, stuck);
  return step;
}

}  // namespace quire
