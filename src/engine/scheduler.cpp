#include "engine/scheduler.h"

#include <algorithm>

#include "core/check.h"
#include "model/attention_scores.h"

namespace quire {
namespace {

// Policies that look at attention sum it up by these, so that sums do not depend on what else runs.
constexpr std::int64_t kScoredChunk = 64;
constexpr std::int64_t kMostDrafts = 8;

std::int64_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
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
  for (const auto& job : running_) count += job->request.choices;
  return count;
}

void Scheduler::open(Job& job) {
  for (Branch& branch : job.branches) {
    if (branch.done) continue;
    branch.sequence = next_sequence_++;
    const auto opened = cache_.open(branch.sequence, {job.request.salt, job.policy->visible()});
    QUIRE_ASSERT(opened.ok(), "sequence ids are never used twice");
    // What a policy makes of attention depends on every token's, so all must be computed.
    if (job.scored) continue;
    const std::int64_t found = cache_.reuse(branch.sequence, branch.tokens);
    go_on_from_kept(job, branch, found);
  }
  job.running = true;
}

// The index knows whole pages; a sequence that was kept may agree a little further.
void Scheduler::go_on_from_kept(const Job& job, Branch& branch, std::int64_t found) {
  std::int64_t longest = found;
  const Kept* best = nullptr;
  for (const Kept& kept : kept_) {
    if (kept.salt != job.request.salt || kept.policy != job.policy->name()) continue;
    const std::int64_t shared =
        std::min(common_prefix(cache_.tokens(kept.sequence), branch.tokens), std::ssize(branch.tokens) - 1);
    if (shared > longest) longest = shared, best = &kept;
  }
  if (best == nullptr) return;
  const SequenceId copy = fork(best->sequence);
  if (*cache_.rollback(copy, longest) > found) {
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
  if (!options_.share_prefixes || job.scored) {
    cache_.release(branch.sequence);
    return;
  }
  kept_.push_back({branch.sequence, job.request.salt, job.policy->name(), {}});
  const auto unbound = std::ranges::count(kept_, Clock::time_point{}, &Kept::until);
  if (unbound > options_.max_running) release_kept();
}

SequenceId Scheduler::fork(SequenceId from) {
  const auto forked = cache_.fork(from, next_sequence_);
  QUIRE_ASSERT(forked.ok(), "sequence ids are never used twice");
  return next_sequence_++;
}

void Scheduler::keep(const Job& job, const Branch& branch) {
  kept_.push_back({fork(branch.sequence), job.request.salt, job.policy->name(), Clock::now() + job.request.keep});
}

bool Scheduler::release_kept() {
  auto out = std::ranges::find(kept_, Clock::time_point{}, &Kept::until);
  if (out == kept_.end()) out = kept_.begin();
  if (out == kept_.end()) return false;
  cache_.release(out->sequence);
  kept_.erase(out);
  return true;
}

void Scheduler::release_expired() {
  std::erase_if(kept_, [&, now = Clock::now()](const Kept& kept) {
    if (kept.until == Clock::time_point{} || kept.until > now) return false;
    cache_.release(kept.sequence);
    return true;
  });
}

void Scheduler::forget_kept() {
  while (release_kept()) {
  }
}

// Somebody computes pages that this one could use: it is quicker to wait.
bool Scheduler::waits_for_pages(const Job& job) const {
  if (!options_.share_prefixes || job.scored) return false;
  const std::vector<TokenId>& tokens = job.branches[0].tokens;
  for (const auto& other : running_) {
    const Branch& branch = other->branches[0];
    if (branch.done || lacking(branch) <= 1 || other->request.salt != job.request.salt) continue;
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
    if (!(*job)->stream->has_room()) return **job;
  }
  return *running_.back();
}

// Makes room for a job that is to be let in, where another has to stand back for it.
bool Scheduler::preempt_for(const Job& job) {
  if (release_kept()) return true;
  Job& out = victim();
  if (out.stream->has_room() && out.request.priority >= job.request.priority) return false;
  preempt(out);
  return true;
}

// Opens the job's sequences where there is room for all that it and the others lack.
bool Scheduler::try_admit(Job& job) {
  while (!running_.empty() && sequences() + job.request.choices > options_.max_running) {
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
      job.report.cached_tokens = cache_.length(job.branches[0].sequence);
    }
    const auto next = std::next(at);
    insert(running_, waiting_, at);
    at = next;
  }
}

std::int64_t Scheduler::chunk(const Job& job, const Branch& branch, std::int64_t most) const {
  const std::int64_t at = cache_.length(branch.sequence);
  std::int64_t count = std::min(lacking(branch), most);
  if (job.scored) {
    // Every time alike, whatever there is room for; answers are gone through again token by token.
    if (at >= job.prompt) return 1;
    return std::min(kScoredChunk - at % kScoredChunk, job.prompt - at);
  }
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
  step.works.push_back(std::move(work));
}

void Scheduler::add_answers(Step& step) {
  for (const auto& job : running_) {
    if (!job->stream->has_room()) continue;
    for (Branch& branch : job->branches) {
      if (lacking(branch) != 1) continue;
      std::vector<TokenId> drafts;
      if (job->request.speculation == Speculation::prompt_lookup && !job->scored) {
        const std::int64_t length = std::ssize(branch.tokens), generated = length - job->prompt;
        std::int64_t most = generated > 0 ? std::min(kMostDrafts, job->limit - length) : 0;
        if (job->request.max_tokens >= 0) most = std::min(most, job->request.max_tokens - generated - 1);
        drafts = branch.lookup.propose(branch.tokens, most);
      }
      add_work(step, *job, branch, 1, std::move(drafts));
    }
  }
}

void Scheduler::add_prompts(Step& step) {
  std::int64_t answers = 0, rows = 0;
  for (const Work& work : step.works) answers += work.rows();
  double left_ms = 0;
  if (answers > 0) {
    left_ms = options_.prefill_budget_ms > 0 ? options_.prefill_budget_ms : cost_.decode_ms(answers);
  }
  const double budget_ms = left_ms;
  for (const auto& job : running_) {
    if (!job->stream->has_room()) continue;
    for (Branch& branch : job->branches) {
      if (lacking(branch) <= 1) continue;
      const std::int64_t depth = cache_.length(branch.sequence);
      std::int64_t most = options_.max_batch - answers - rows;
      if (answers > 0) most = rows > 0 && left_ms <= 0 ? 0 : cost_.rows_within(left_ms, depth, most);
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
    std::vector<StepWant> wants;
    for (const Work& work : step.works) wants.push_back({work.branch->sequence, work.rows()});
    auto plan = cache_.prepare(wants);
    if (plan.ok()) {
      step.plan = std::move(*plan);
      ask_for_scores(step);
      return;
    }
    if (release_kept()) continue;
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
  release_expired();
  admit();
  Step step;
  add_answers(step);
  add_prompts(step);
  reserve(step, stuck);
  return step;
}

}  // namespace quire
