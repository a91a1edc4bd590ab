#include "engine/committer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/check.h"
#include "core/statistics.h"
#include "engine/model_parts.h"

namespace quire {
namespace {

// Log-probabilities under the model itself, before anything was done to its logits.
void add_probabilities(StreamEvent& event, std::span<const float> logits, TokenId token, int alternatives) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  const auto of = [&](TokenId t) {
    const auto logit = static_cast<double>(logits[static_cast<std::size_t>(t)]);
    return TokenProbability{t, static_cast<float>(logit - most - std::log(sum))};
  };
  event.chosen = of(token);
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = std::min(std::ssize(order), static_cast<std::ptrdiff_t>(alternatives));
  std::ranges::partial_sort(order, order.begin() + count, [&](TokenId a, TokenId b) {
    const float of_a = logits[static_cast<std::size_t>(a)], of_b = logits[static_cast<std::size_t>(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  });
  for (std::ptrdiff_t i = 0; i < count; ++i) event.alternatives.push_back(of(order[static_cast<std::size_t>(i)]));
}

// Tells the reader of all that has not ended that it does.
// Every choice that has no end yet, begun or not.
void end_choices(const Job& job, StopReason reason) {
  for (int choice = 0; choice < job.request.choices; ++choice) {
    const auto has_ended = [&](const Branch& branch) { return branch.choice == choice && branch.ended; };
    if (!job.beams && std::ranges::any_of(job.branches, has_ended)) continue;
    StreamEvent event;
    event.choice = choice;
    event.end = reason;
    job.stream->push(std::move(event));
  }
}

}  // namespace

std::int64_t Committer::tokens_left(const Job& job, const Branch& branch) {
  const std::int64_t length = std::ssize(branch.tokens);
  const std::int64_t by_context = job.limit + 1 - length;
  if (job.request.max_tokens < 0) return by_context;
  return std::min(by_context, job.prompt + job.request.max_tokens - length);
}

std::span<const std::uint64_t> Committer::allowed(const Job& job, const Branch& branch) {
  if (!branch.constraint) return {};
  mask_.resize((static_cast<std::size_t>(model_.info().vocabulary) + 63) / 64);
  branch.constraint->mask(tokens_left(job, branch), mask_);
  return mask_;
}

TokenId Committer::choose(const Job& job, Branch& branch, std::span<const float> logits, const Guess& guess) {
  if (guess.drawn) return *guess.drawn;
  const auto may_come = allowed(job, branch);
  if (guess.chances.empty()) return branch.sampler.sample(logits, branch.tokens, may_come);
  return branch.sampler.correct(guess.token, guess.chances,
                                branch.sampler.distribution(logits, branch.tokens, may_come));
}

void Committer::draw_ahead(Step& step, Runner& runner) {
  runner.pool().for_each(std::ssize(step.works), [&](std::int64_t i) {
    Work& work = step.works[static_cast<std::size_t>(i)];
    if (!work.complete() || work.job->beams || !work.drafts.empty() || work.branch->constraint) return;
    work.drawn = work.branch->sampler.sample(runner.logits(work.last_logits()), work.branch->tokens);
  });
}

// Draws the next token of a branch and streams it. A guess stays where it may.
TokenId Committer::take(Job& job, Branch& branch, std::span<const float> logits, const Guess& guess) {
  StreamEvent event;
  event.choice = branch.choice;
  const TokenId token = choose(job, branch, logits, guess);
  const auto now = Clock::now();
  if (job.first_token == Clock::time_point{}) {
    job.first_token = now;
  } else if (branch.choice == 0) {
    job.gaps.push_back(milliseconds(job.last_token, now));
  }
  if (branch.choice == 0) job.last_token = now;

  if (job.request.max_tokens == 0) {
    branch.ended = event.end = StopReason::max_tokens;
  } else if (model_.ends_generation(token)) {
    branch.ended = event.end = StopReason::end_of_generation;
  } else {
    branch.tokens.push_back(token);
    if (branch.constraint) branch.constraint->accept(token);
    ++job.report.generated_tokens;
    ++totals_.generated_tokens;
    event.token = token;
    event.text = branch.stop.push(branch.text.push(token));
    if (job.request.top_logprobs >= 0) add_probabilities(event, logits, token, job.request.top_logprobs);
    const std::int64_t length = std::ssize(branch.tokens);
    if (branch.stop.stopped()) {
      branch.ended = event.end = StopReason::stop_string;
    } else if (branch.constraint && branch.constraint->finished()) {
      branch.ended = event.end = StopReason::end_of_generation;
    } else if (job.request.max_tokens >= 0 && length - job.prompt >= job.request.max_tokens) {
      branch.ended = event.end = StopReason::max_tokens;
    } else if (length > job.limit) {
      branch.ended = event.end = StopReason::context_full;
    }
  }
  if (branch.ended) event.text += branch.stop.push(branch.text.flush()) + branch.stop.flush();
  job.stream->push(std::move(event));
  return token;
}

// What the model thought of the prompt's own tokens.
void Committer::score_prompt(const Work& work, const Runner& runner) {
  Job& job = *work.job;
  const std::vector<TokenId>& tokens = work.branch->tokens;
  for (std::int64_t r = work.logits_from; job.scores_prompt() && r < work.tokens; ++r) {
    const std::int64_t next = work.first + r + 1;
    if (next != job.next_scored || next >= job.prompt) continue;
    StreamEvent event;
    event.of_prompt = true;
    event.token = tokens[static_cast<std::size_t>(next)];
    add_probabilities(event, runner.logits(work.first_logits + r - work.logits_from), *event.token,
                      std::max(job.request.top_logprobs, 0));
    job.stream->push(std::move(event));
    ++job.next_scored;
  }
}

void Committer::embed(const Work& work, const Runner& runner) {
  Job& job = *work.job;
  if (job.embedded || job.request.embedding == Embedding::none) return;
  // A prompt that is computed once more is summed up once more.
  if (work.first == 0) job.embedding.clear();
  for (std::int64_t i = 0; i < work.tokens - work.hidden_from; ++i) {
    const auto row = runner.hidden(work.first_hidden + i);
    job.embedding.resize(row.size());
    for (std::size_t k = 0; k < row.size(); ++k) job.embedding[k] += static_cast<double>(row[k]);
  }
  if (!work.complete()) return;
  double squares = 0;
  for (const double x : job.embedding) squares += x * x;
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  StreamEvent event;
  for (const double x : job.embedding) event.embedding.push_back(static_cast<float>(x * scale));
  job.stream->push(std::move(event));
  job.embedded = true;
}

void Committer::tell_progress(const Work& work) {
  const Job& job = *work.job;
  if (!job.request.report_progress || job.first_token != Clock::time_point{}) return;
  StreamEvent event;
  event.progress = PromptProgress{job.prompt, job.report.cached_tokens, work.first + work.tokens,
                                  milliseconds(job.admitted, Clock::now())};
  job.stream->push(std::move(event));
}

// Draws after the branch's last token, and after every guess that came true: so many did.
std::int64_t Committer::draw(Work& work, const Runner& runner) {
  const std::int64_t drafted = std::ssize(work.drafts);
  std::int64_t accepted = 0;
  while (true) {
    const auto at = static_cast<std::size_t>(accepted);
    Guess guess;
    if (at < work.draft_chances.size()) guess = {work.drafts[at], work.draft_chances[at]};
    if (accepted == 0) guess.drawn = work.drawn;
    const TokenId token = take(*work.job, *work.branch, runner.logits(work.last_logits() + accepted), guess);
    const bool guessed = accepted < drafted && token == work.drafts[at];
    if (work.branch->ended || !guessed) break;
    ++accepted;
  }
  work.branch->drafts.learn(drafted, accepted, cost_.relative_ms(rows_, rows_ - drafted));
  work.job->report.drafted_tokens += drafted;
  work.job->report.accepted_tokens += accepted;
  totals_.drafted_tokens += static_cast<std::uint64_t>(drafted);
  totals_.accepted_tokens += static_cast<std::uint64_t>(accepted);
  return accepted;
}

// The prompt is computed: further choices go on from the same pages.
void Committer::split(Job& job, std::span<const float> logits) {
  for (int choice = 1; choice < job.request.choices; ++choice) {
    Branch branch = new_branch(job, model_.parts().tokenizer, choice);
    branch.sequence = scheduler_.fork(job.branches[0].sequence);
    if (job.grammar) branch.constraint.emplace(*job.grammar);
    job.branches.push_back(std::move(branch));
    take(job, job.branches.back(), logits, {});
  }
}

void Committer::commit(Step& step, const Runner& runner) {
  ++totals_.steps;
  rows_ = 0;
  for (const Work& work : step.works) rows_ += work.rows();
  std::vector<Job*> touched, short_of_memory;
  for (Work& work : step.works) {
    Job& job = *work.job;
    Branch& branch = *work.branch;
    touched.push_back(&job);
    totals_.computed_tokens += static_cast<std::uint64_t>(work.rows());
    score_prompt(work, runner);
    embed(work, runner);
    tell_progress(work);
    const std::int64_t accepted = work.complete() && !job.beams ? draw(work, runner) : 0;
    const std::int64_t end = work.first + work.tokens + accepted;
    cache_.commit(
        branch.sequence,
        std::span(branch.tokens).first(static_cast<std::size_t>(end)).subspan(static_cast<std::size_t>(work.first)));
    if (!work.score_sums.empty()) cache_.add_scores(branch.sequence, work.score_sums);
    const bool prompt_done = end == job.prompt;
    if (prompt_done || end == job.branch_point) cache_.checkpoint(branch.sequence);
    if (const auto eviction = job.policy->evict(cache_.retention_state(branch.sequence, job.prompt))) {
      bool done = cache_.evict(branch.sequence, *eviction, *job.policy).ok();
      while (!done && scheduler_.forget_one_kept()) done = cache_.evict(branch.sequence, *eviction, *job.policy).ok();
      if (!done) short_of_memory.push_back(&job);
    }
    if (prompt_done && job.branches.size() == 1) {
      if (job.request.keep.count() > 0) scheduler_.keep(job, branch);
      if (!job.beams) split(job, runner.logits(work.last_logits()));
    }
  }
  const auto unique = [](std::vector<Job*>& jobs) {
    std::ranges::sort(jobs);
    jobs.erase(std::unique(jobs.begin(), jobs.end()), jobs.end());
  };
  unique(touched);
  for (Job* job : touched) {
    if (job->beams) advance_beams(*job, step, runner);
  }
  unique(short_of_memory);
  for (Job* job : touched) {
    for (Branch& branch : job->branches) {
      if (branch.ended && !branch.done) scheduler_.close(*job, branch);
    }
    const bool is_short = std::ranges::binary_search(short_of_memory, job);
    if (job->done()) {
      finish(*job);
    } else if (is_short && scheduler_.running().size() > 1) {
      scheduler_.preempt(*job);
    } else if (is_short) {
      fail(scheduler_.remove(*job),
           {Errc::out_of_memory,
            "the cache has no room to gather the tokens that the policy keeps; raise --cache-bytes"});
    }
  }
}

void Committer::report(Job& job, const Result<void>& how) {
  totals_.prompt_tokens += static_cast<std::uint64_t>(job.prompt);
  totals_.cached_tokens += static_cast<std::uint64_t>(job.report.cached_tokens);
  if (!how.ok()) return job.stream->finish(how.error());
  const auto now = Clock::now();
  const auto or_now = [&](Clock::time_point t) { return t == Clock::time_point{} ? now : t; };
  RequestReport& r = job.report;
  r.prompt_tokens = job.prompt;
  r.queue_ms = milliseconds(job.submitted, or_now(job.admitted));
  r.prefill_ms = milliseconds(or_now(job.admitted), or_now(job.first_token));
  r.first_token_ms = milliseconds(job.submitted, or_now(job.first_token));
  r.decode_ms = milliseconds(or_now(job.first_token), or_now(job.last_token));
  if (job.first_token != Clock::time_point{}) {
    ++totals_.first_tokens;
    totals_.first_token_ms += r.first_token_ms;
  }
  std::ranges::sort(job.gaps);
  r.between_tokens_p50_ms = percentile(job.gaps, 0.50);
  r.between_tokens_p95_ms = percentile(job.gaps, 0.95);
  r.between_tokens_p99_ms = percentile(job.gaps, 0.99);
  job.stream->finish(r);
}

void Committer::finish(Job& job) {
  const auto owned = scheduler_.remove(job);
  ++totals_.finished;
  report(*owned, {});
}

bool Committer::begin(std::unique_ptr<Job>& job) {
  if (!job->grammar) return true;
  Branch& branch = job->branches[0];
  branch.constraint.emplace(*job->grammar);
  const std::int64_t needed = branch.constraint->tokens_to_close(), left = tokens_left(*job, branch);
  if (needed <= left) return true;
  fail(std::move(job), {Errc::invalid_argument,
                        fmt::format("the shortest answer in this format takes {} tokens; there is room for {}: raise "
                                    "max_tokens or the context",
                                    needed, left)});
  return false;
}

void Committer::cancel(Job& job) {
  const auto owned = scheduler_.remove(job);
  ++totals_.cancelled;
  end_choices(*owned, StopReason::cancelled);
  report(*owned, {});
}

void Committer::fail(std::unique_ptr<Job> job, Error error) {
  ++totals_.failed;
  report(*job, std::move(error));
}

// The request alone has filled the cache: it keeps what it said so far.
void Committer::end_full(std::unique_ptr<Job> job) {
  if (job->report.generated_tokens == 0) {
    return fail(std::move(job), {Errc::out_of_memory, "the cache has no room for the prompt; raise --cache-bytes"});
  }
  end_choices(*job, StopReason::context_full);
  ++totals_.finished;
  report(*job, {});
}

}  // namespace quire
