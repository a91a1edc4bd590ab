#include "engine/engine_state.h"

#include "core/fail.h"
#include "engine/cache_setup.h"
#include "engine/model_parts.h"
#include "engine/request_view.h"

namespace quire {

Result<void> Engine::check(const EngineOptions& options) {
  const auto within = [](const char* what, std::int64_t value, std::int64_t least, std::int64_t most) -> Result<void> {
    if (value >= least && value <= most) return {};
    return fail(Errc::invalid_argument, "{} is {}; expected {} to {}", what, value, least, most);
  };
  QUIRE_CHECK_OK(within("threads", options.threads, 0, 1024));
  QUIRE_CHECK_OK(within("max_running", options.max_running, 1, 1 << 20));
  QUIRE_CHECK_OK(within("max_waiting", options.max_waiting, 1, 1 << 20));
  QUIRE_CHECK_OK(within("max_batch", options.max_batch, 1, 1 << 20));
  QUIRE_CHECK_OK(within("stream_tokens", options.stream_tokens, 1, 1 << 20));
  if (options.cache.layout != "paged") {
    return fail(Errc::unsupported, "cache layout '{}': many requests need the paged one", options.cache.layout);
  }
  QUIRE_CHECK_OK(set_up_cache(options.cache));
  QUIRE_CHECK_OK(parse_policy(options.cache.policy));
  QUIRE_CHECK_OK(find_ops(options.kernels));
  return {};
}

Result<Engine> Engine::create(std::shared_ptr<const Model> model, const EngineOptions& wanted) {
  const ModelConfig& config = model->parts().config;
  EngineOptions options = wanted;
  if (options.context == 0) options.context = config.context;
  if (options.context < 1 || options.context > config.context) {
    return fail(Errc::invalid_argument, "context is {}; expected 1 to {}", options.context, config.context);
  }
  QUIRE_CHECK_OK(check(options));
  QUIRE_TRY(const CacheSetup setup, set_up_cache(options.cache));
  QUIRE_CHECK_OK(policy_for(config, options.cache.policy));
  QUIRE_TRY(const Ops* ops, find_ops(options.kernels));
  options.share_prefixes = options.share_prefixes && setup.strategy.kind != CacheStrategy::Kind::off;
  CacheOptions cache_settings = cache_options(setup, config);
  cache_settings.share_prefixes = options.share_prefixes;
  cache_settings.poison = options.poison;
  QUIRE_TRY(auto cache, KvCache::create(cache_settings));
  auto state = std::make_unique<State>(std::move(model), options, *ops, std::move(cache));
  if (options.draft != nullptr) {
    // Beside the large model's cache a small one's takes a fraction.
    const std::uint64_t bytes = std::max<std::uint64_t>(setup.settings.bytes / 4, 1 << 20);
    QUIRE_TRY(state->draft, DraftModel::create(options.draft, *state->model, *ops, state->runner.pool(), bytes));
  }
  state->never_end = state->model->parts().bias_against_ending();
  state->thread = std::thread([s = state.get()] { s->run(); });
  return Engine(std::move(state));
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

Engine::~Engine() {
  if (state_ == nullptr) return;
  {
    const std::scoped_lock lock(state_->inbox_mutex);
    state_->stopping = true;
  }
  state_->signal.notify_one();
  state_->thread.join();
}

void Engine::State::wake() {
  {
    const std::scoped_lock lock(inbox_mutex);
    awake = true;
  }
  signal.notify_one();
}

// Whether the cache could ever hold all of it, with nobody else there.
Result<void> Engine::State::check_fits(const Job& job) const {
  const std::int64_t answer = std::max<std::int64_t>(job.request.max_tokens, 1);
  const std::int64_t total = job.prompt + std::min(answer, job.limit - job.prompt);
  const std::uint64_t prompt = cache->estimate_bytes(job.prompt, job.policy->visible());
  const std::uint64_t one = cache->estimate_bytes(total, job.policy->visible());
  // While a step runs there are pages more: those it fills, and those that windows are about to leave.
  std::int64_t in_a_step = 0;
  for (const KvGroupLayout& layout : cache->layouts()) in_a_step += 2 * (layout.wide.bytes + layout.packed.bytes);
  const auto sequences = static_cast<std::uint64_t>(job.sequences());
  const std::uint64_t needed =
      prompt + sequences * (one - std::min(one, prompt) + static_cast<std::uint64_t>(in_a_step));
  const std::uint64_t budget = cache->budget_bytes();
  if (needed <= budget) return {};
  return fail(Errc::out_of_memory,
              "{} prompt tokens and {} x {} generated ones take {} bytes of cache; there are {}: raise --cache-bytes, "
              "shorten the request, or use a smaller --cache-type-k and -v",
              job.prompt, job.sequences(), total - job.prompt, needed, budget);
}

Result<std::shared_ptr<CompiledGrammar>> Engine::State::grammar_for(const OutputFormat& format) {
  using Kind = OutputFormat::Kind;
  if (format.kind == Kind::text) return std::shared_ptr<CompiledGrammar>();
  const std::scoped_lock lock(grammar_mutex);
  if (grammars == nullptr) {
    const Tokenizer& tokenizer = model->parts().tokenizer;
    std::vector<TokenId> ends;
    for (const auto& [token, bias] : never_end) ends.push_back(token);
    QUIRE_TRY(TokenTrie trie, TokenTrie::create(
                                  tokenizer.size(),
                                  [&](TokenId token) {
                                    return tokenizer.is_special(token) ? std::string_view() : tokenizer.piece(token);
                                  },
                                  std::move(ends)));
    grammars = std::make_unique<GrammarCache>(std::make_shared<const TokenTrie>(std::move(trie)));
  }
  GrammarSource source{GrammarSource::Kind::json, {}};
  if (format.kind != Kind::json) source.text = format.source;
  if (format.kind == Kind::schema) source.kind = GrammarSource::Kind::schema;
  if (format.kind == Kind::regex) source.kind = GrammarSource::Kind::regex;
  if (format.kind == Kind::gbnf) source.kind = GrammarSource::Kind::gbnf;
  return grammars->get(source);
}

Result<std::unique_ptr<Job>> Engine::State::accept(Request request) {
  const ModelConfig& config = model->parts().config;
  if (request.tokens.empty()) request.tokens = model->tokenize(request.text);
  if (request.tokens.empty()) return fail(Errc::invalid_argument, "the prompt is empty; give at least one token");
  for (const TokenId token : request.tokens) {
    if (token >= 0 && token < config.vocabulary) continue;
    return fail(Errc::invalid_argument, "token {} is outside the vocabulary of {}", token, config.vocabulary);
  }
  QUIRE_CHECK_OK(Sampler::validate(request.sampling, config.vocabulary));
  if (request.choices < 1 || request.choices > options.max_running) {
    return fail(Errc::invalid_argument, "{} choices; expected 1 to {}", request.choices, options.max_running);
  }
  if (request.beams < 1 || request.beams > options.max_running ||
      (request.beams > 1 && request.choices > request.beams)) {
    return fail(Errc::invalid_argument, "{} beams for {} choices; expected at least as many beams, up to {}",
                request.beams, request.choices, options.max_running);
  }
  if (request.beams > 1 && (!request.stop.empty() || request.max_tokens == 0)) {
    return fail(Errc::invalid_argument, "beam search knows no stop strings and generates at least one token");
  }
  if (request.score_from < -1 || request.score_from > std::ssize(request.tokens)) {
    return fail(Errc::invalid_argument, "scores from token {}; the prompt has {}", request.score_from,
                request.tokens.size());
  }
  if (request.max_tokens < -1) {
    return fail(Errc::invalid_argument, "max_tokens is {}; expected 0 or more, or -1 for no limit", request.max_tokens);
  }
  if (request.ignore_end) {
    auto& bias = request.sampling.logit_bias;
    bias.insert(bias.end(), never_end.begin(), never_end.end());
  }
  auto job = std::make_unique<Job>();
  QUIRE_TRY(job->policy,
            policy_for(config, request.cache_policy.empty() ? options.cache.policy : request.cache_policy));
  job->prompt = std::ssize(request.tokens);
  job->scored = job->policy->scored_rows({0, job->prompt, 0, 0}, job->prompt) > 0;
  job->limit = token_limit(config, *job->policy, options.context);
  // Nothing comes before the first token that could tell how likely it is.
  job->next_scored = std::max<std::int64_t>(request.score_from, 1);
  if (request.speculation == Speculation::draft_model && draft == nullptr) {
    return fail(Errc::invalid_argument, "there is no draft model; give EngineOptions::draft, or use prompt lookup");
  }
  if (request.beams > 1) job->beams.emplace(request.beams);
  job->request = std::move(request);
  if (job->prompt > job->limit) {
    return fail(Errc::context_full, "{} tokens do not fit in the context of {}; raise -c/--ctx-size", job->prompt,
                job->limit);
  }
  QUIRE_CHECK_OK(check_fits(*job));
  QUIRE_TRY(job->grammar, grammar_for(job->request.format));
  job->branches.reserve(static_cast<std::size_t>(job->sequences()));
  job->branches.push_back(new_branch(*job, model->parts().tokenizer, 0));
  return job;
}

Result<Stream> Engine::submit(Request request) {
  State& s = *state_;
  auto job = s.accept(std::move(request));
  if (!job.ok()) {
    ++s.refused;
    return job.error();
  }
  auto stream = std::make_shared<Stream::State>(static_cast<std::size_t>(s.options.stream_tokens), [&s] { s.wake(); });
  (*job)->stream = stream;
  (*job)->submitted = Clock::now();
  {
    const std::scoped_lock lock(s.inbox_mutex);
    if (s.waiting + std::ssize(s.inbox) >= s.options.max_waiting) {
      ++s.refused;
      return fail(Errc::busy, "{} requests are in line already; try again later", s.options.max_waiting);
    }
    (*job)->arrival = s.arrivals++;
    s.inbox.push_back(std::move(*job));
    s.awake = true;
  }
  s.signal.notify_one();
  return Stream(std::move(stream));
}

Result<CacheLookup> Engine::look_up(Request request) {
  QUIRE_TRY(const auto job, state_->accept(std::move(request)));
  const std::scoped_lock lock(state_->mutex);
  return state_->scheduler.look_up(*job);
}

Result<std::int64_t> Engine::unpin(Request request) {
  QUIRE_TRY(const auto job, state_->accept(std::move(request)));
  const std::scoped_lock lock(state_->mutex);
  return state_->scheduler.unpin(*job);
}

Step Engine::State::decide(std::vector<std::unique_ptr<Job>> arrived) {
  const std::scoped_lock lock(mutex);
  totals.submitted += arrived.size();
  for (auto& job : arrived) {
    if (committer.begin(job)) scheduler.add(std::move(job));
  }
  std::vector<Job*> cancelled;
  for (const auto* jobs : {&scheduler.running(), &scheduler.waiting()}) {
    for (const auto& job : *jobs) {
      if (job->stream->is_cancelled()) cancelled.push_back(job.get());
    }
  }
  for (Job* job : cancelled) committer.cancel(*job);
  Step step;
  Scheduler::Jobs stuck;
  do {
    step = scheduler.decide(stuck);
    for (auto& job : stuck) committer.end_full(std::move(job));
  } while (step.empty() && !std::exchange(stuck, {}).empty());
  const std::scoped_lock count_lock(inbox_mutex);
  waiting = std::ssize(scheduler.waiting());
  return step;
}

void Engine::State::compute_and_commit(Step& step) {
  std::int64_t answers = 0;
  double prompts = 0;
  for (const Work& work : step.works) {
    if (work.tokens == 1) {
      answers += work.rows();
    } else {
      prompts += cost.prefill_work(work.tokens, work.first);
    }
  }
  const auto start = Clock::now();
  if (draft != nullptr) draft->propose(step.works);
  runner.forward(*cache, step);
  Committer::draw_ahead(step, runner);
  const double ms = milliseconds_since(start);
  const std::scoped_lock lock(mutex);
  cost.observe({answers, prompts, step.fresh_bytes}, ms);
  committer.commit(step, runner);
}

void Engine::State::cancel_all() {
  const std::scoped_lock lock(mutex);
  while (!scheduler.running().empty()) committer.cancel(*scheduler.running().front());
  while (!scheduler.waiting().empty()) committer.cancel(*scheduler.waiting().front());
}

// Decide, compute, commit.
void Engine::State::run() {
  runner.pool().settle_caller();
  bool busy = false;
  while (true) {
    std::vector<std::unique_ptr<Job>> arrived;
    bool stop = false;
    {
      std::unique_lock lock(inbox_mutex);
      signal.wait(lock, [&] { return busy || awake || stopping; });
      arrived.swap(inbox);
      if (std::exchange(awake, false)) scheduler.reconsider();
      stop = stopping;
    }
    Step step = decide(std::move(arrived));
    if (stop) return cancel_all();
    busy = !step.empty();
    if (busy) compute_and_commit(step);
  }
}

EngineStats Engine::stats() const {
  const State& s = *state_;
  const std::scoped_lock lock(s.mutex);
  EngineStats stats;
  const EngineTotals& t = s.totals;
  stats.max_running = s.options.max_running;
  stats.running = std::ssize(s.scheduler.running());
  stats.waiting = std::ssize(s.scheduler.waiting());
  stats.submitted = t.submitted;
  stats.finished = t.finished;
  stats.cancelled = t.cancelled;
  stats.refused = s.refused;
  stats.failed = t.failed;
  stats.prompt_tokens = t.prompt_tokens;
  stats.cached_tokens = t.cached_tokens;
  stats.generated_tokens = t.generated_tokens;
  stats.computed_tokens = t.computed_tokens;
  stats.drafted_tokens = t.drafted_tokens;
  stats.accepted_tokens = t.accepted_tokens;
  stats.steps = t.steps;
  stats.first_tokens = t.first_tokens;
  stats.first_token_ms = t.first_token_ms;
  stats.preemptions = s.scheduler.preemptions();
  stats.prefill_budget_ms = s.scheduler.prefill_budget_ms();
  const CacheStats cache = s.cache->stats();
  stats.pages_open = cache.open_pages;
  stats.pages_sealed = cache.sealed_pages;
  stats.pages_shared = cache.shared_pages;
  stats.bytes_used = cache.held_bytes();
  stats.bytes_cached = cache.cached_bytes;
  stats.bytes_budget = cache.budget_bytes;
  return stats;
}

CacheView Engine::cache_view() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->cache->view();
}

std::vector<RequestView> Engine::requests() const {
  const State& s = *state_;
  const std::scoped_lock lock(s.mutex);
  std::vector<RequestView> views;
  for (const auto* jobs : {&s.scheduler.running(), &s.scheduler.waiting()}) {
    for (const auto& job : *jobs) views.push_back(view_of(*job, *s.cache));
  }
  return views;
}

void Engine::forget_cached() {
  const std::scoped_lock lock(state_->mutex);
  state_->scheduler.forget_kept();
  state_->cache->forget_unused();
}

const Model& Engine::model() const { return *state_->model; }
std::int64_t Engine::context() const { return state_->options.context; }

}  // namespace quire
