#include "quire/session.h"

#include <algorithm>
#include <numeric>

#include "core/clock.h"
#include "core/fail.h"
#include "core/statistics.h"
#include "engine/cache_faults.h"
#include "engine/common_prefix.h"
#include "engine/model_parts.h"
#include "engine/sampler.h"
#include "engine/session_cache.h"
#include "model/decoder.h"
#include "text/stream_decoder.h"

namespace quire {
namespace {

// What computes; forks of a session take turns with it.
struct Machine {
  Machine(const Model::Parts& parts, const Ops& ops_, int threads)
      : ops(ops_),
        pool(threads > 0 ? threads : usable_cpus()),
        decoder(parts.config, parts.weights_for(ops, pool), ops, pool) {}

  const Ops& ops;
  ThreadPool pool;
  Decoder decoder;
};

}  // namespace

struct Session::State {
  std::shared_ptr<const Model> model;
  SessionOptions options;
  std::shared_ptr<Machine> machine;
  SessionCache cache;
  bool naive = false;  // the last generation used no cache: it holds nothing

  Result<void> check_tokens(std::span<const TokenId> tokens) const;
  Result<std::span<const float>> compute(std::span<const TokenId> tokens, std::span<const std::int64_t> rows,
                                         std::int64_t prompt);
  Result<std::span<const float>> prefill(std::span<const TokenId> tokens, std::int64_t prompt,
                                         const GenerateOptions& how);
  Result<std::span<const float>> next_logits(std::span<const TokenId> sequence, std::int64_t prompt,
                                             const GenerateOptions& how, Generation& result);
};

Result<Session> Session::create(std::shared_ptr<const Model> model, const SessionOptions& options) {
  if (options.prefill_chunk < 1) {
    return fail(Errc::invalid_argument, "a prefill chunk of {} tokens; expected at least 1", options.prefill_chunk);
  }
  if (options.context < 1) {
    return fail(Errc::invalid_argument, "a context of {} tokens; expected at least 1", options.context);
  }
  if (options.threads < 0 || options.threads > 1024) {
    return fail(Errc::invalid_argument, "{} threads; expected 1 to 1024, or 0 for all", options.threads);
  }
  const ModelConfig& config = model->parts().config;
  QUIRE_TRY(const Ops* ops, find_ops(options.kernels));
  QUIRE_TRY(SessionCache cache, SessionCache::create(config, options));
  auto machine = std::make_shared<Machine>(model->parts(), *ops, options.threads);
  return Session(std::make_unique<State>(State{std::move(model), options, std::move(machine), std::move(cache)}));
}

Result<Session> Session::fork() const {
  QUIRE_TRY(SessionCache cache, state_->cache.fork());
  return Session(std::make_unique<State>(State{state_->model, state_->options, state_->machine, std::move(cache)}));
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<void> Session::State::check_tokens(std::span<const TokenId> tokens) const {
  const int vocabulary = model->info().vocabulary;
  for (const TokenId token : tokens) {
    if (token < 0 || token >= vocabulary) {
      return fail(Errc::invalid_argument, "token {} is outside the vocabulary of {}", token, vocabulary);
    }
  }
  if (std::ssize(tokens) > cache.limit()) {
    return fail(
        Errc::context_full, "{} tokens do not fit in the context of {}; raise -c/--ctx-size{}", tokens.size(),
        options.context,
        options.context >= model->info().context ? ", or shorten the text: the model knows no more positions" : "");
  }
  return {};
}

// One forward pass over the next tokens: the logits of the rows asked for.
Result<std::span<const float>> Session::State::compute(std::span<const TokenId> tokens,
                                                       std::span<const std::int64_t> rows, std::int64_t prompt) {
  QUIRE_TRY(const BatchSequence sequence, cache.prepare(std::ssize(tokens), prompt));
  const auto logits = machine->decoder.forward({tokens, {&sequence, 1}, cache.groups(), cache.layers(), rows});
  QUIRE_CHECK_OK(cache.commit(tokens, prompt));
  return logits;
}

// Computes what the cache does not hold of `tokens`, in chunks; the logits of the last one.
Result<std::span<const float>> Session::State::prefill(std::span<const TokenId> tokens, std::int64_t prompt,
                                                       const GenerateOptions& how) {
  std::span<const float> logits;
  const std::int64_t start = cache.length(), total = std::ssize(tokens);
  for (std::int64_t at = start; at < total;) {
    if (how.cancel != nullptr && how.cancel->load(std::memory_order_relaxed)) return Error{Errc::cancelled, "stopped"};
    const std::int64_t count = std::min(total - at, options.prefill_chunk), last_row = count - 1;
    const std::size_t wanted = at + count == total ? 1 : 0;
    QUIRE_TRY(logits, compute(tokens.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count)),
                              {&last_row, wanted}, prompt));
    at += count;
    if (how.on_prefill && total - start > 1) how.on_prefill(at - start, total - start);
  }
  return logits;
}

// Logits after the last token of the sequence: from the cache, or from nothing when it is off.
Result<std::span<const float>> Session::State::next_logits(std::span<const TokenId> sequence, std::int64_t prompt,
                                                           const GenerateOptions& how, Generation& result) {
  if (!how.use_cache || !cache.caches(std::ssize(sequence))) cache.rollback(0);
  result.computed_tokens += std::ssize(sequence) - cache.length();
  return prefill(sequence, prompt, how);
}

Result<Generation> Session::generate(std::span<const TokenId> prompt, const GenerateOptions& options) {
  State& s = *state_;
  if (prompt.empty()) return fail(Errc::invalid_argument, "the prompt is empty; give at least one token");
  QUIRE_CHECK_OK(s.check_tokens(prompt));
  QUIRE_CHECK_OK(Sampler::validate(options.sampling, s.model->info().vocabulary));
  // A strategy may cache this sequence only once it is long enough, or never.
  const bool may_cache = options.use_cache && s.cache.caches(s.cache.limit());
  s.naive = !may_cache;

  Generation result;
  const auto start = Clock::now();
  // What the cache shares with the prompt stays; at least one token is left to compute.
  if (may_cache && s.cache.caches(std::ssize(prompt))) {
    s.cache.rollback(std::min(common_prefix(s.cache.tokens(), prompt), std::ssize(prompt) - 1));
  }
  result.timings.cached_tokens = may_cache && s.cache.caches(std::ssize(prompt)) ? s.cache.length() : 0;
  result.timings.prompt_tokens = std::ssize(prompt) - result.timings.cached_tokens;

  std::vector<TokenId> sequence(prompt.begin(), prompt.end());
  SamplingOptions sampling = options.sampling;
  if (options.ignore_end) {
    const auto never_end = s.model->parts().bias_against_ending();
    sampling.logit_bias.insert(sampling.logit_bias.end(), never_end.begin(), never_end.end());
  }
  Sampler sampler(sampling);
  StreamDecoder text(s.model->parts().tokenizer);
  std::vector<double> gaps;
  auto previous = start;
  const auto finish = [&](StopReason reason) {
    result.stop = reason;
    const std::string rest = text.flush();
    result.text += rest;
    if (!rest.empty() && options.on_token) options.on_token(sequence.back(), rest);
    Timings& t = result.timings;
    t.generated_tokens = std::ssize(result.tokens);
    t.generated_ms = std::accumulate(gaps.begin(), gaps.end(), 0.0);
    std::ranges::sort(gaps);
    t.between_tokens_p50_ms = percentile(gaps, 0.50);
    t.between_tokens_p99_ms = percentile(gaps, 0.99);
    if (!may_cache) s.cache.rollback(0);
    return result;
  };
  while (true) {
    if (options.max_tokens >= 0 && std::ssize(result.tokens) >= options.max_tokens) {
      return finish(StopReason::max_tokens);
    }
    if (std::ssize(sequence) > s.cache.limit()) return finish(StopReason::context_full);
    const auto logits = s.next_logits(sequence, std::ssize(prompt), options, result);
    if (!logits.ok()) {
      if (logits.error().code == Errc::cancelled) return finish(StopReason::cancelled);
      return logits.error();
    }
    const TokenId token = sampler.sample(*logits, sequence);
    const auto now = Clock::now();
    if (result.tokens.empty()) {
      result.timings.first_token_ms = result.timings.prompt_ms = milliseconds(start, now);
    } else {
      gaps.push_back(milliseconds(previous, now));
    }
    previous = now;
    if (s.model->ends_generation(token)) return finish(StopReason::end_of_generation);
    sequence.push_back(token);
    result.tokens.push_back(token);
    const std::string piece = text.push(token);
    result.text += piece;
    if (options.on_token) options.on_token(token, piece);
    if (options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed)) {
      return finish(StopReason::cancelled);
    }
  }
}

Result<std::span<const float>> Session::prefill(std::span<const TokenId> tokens) {
  State& s = *state_;
  if (tokens.empty()) return fail(Errc::invalid_argument, "nothing to prefill; give at least one token");
  std::vector<TokenId> all(s.cache.tokens().begin(), s.cache.tokens().end());
  all.insert(all.end(), tokens.begin(), tokens.end());
  QUIRE_CHECK_OK(s.check_tokens(all));
  s.naive = false;
  return s.prefill(all, std::ssize(all), {});
}

Result<std::span<const float>> Session::decode(TokenId token) {
  State& s = *state_;
  const std::int64_t length = s.cache.length(), row = 0;
  const int vocabulary = s.model->info().vocabulary;
  if (token < 0 || token >= vocabulary) {
    return fail(Errc::invalid_argument, "token {} is outside the vocabulary of {}", token, vocabulary);
  }
  if (length >= s.cache.limit()) {
    return fail(Errc::context_full, "the context of {} tokens is full; raise -c/--ctx-size", s.cache.limit());
  }
  s.naive = false;
  return s.compute({&token, 1}, {&row, 1}, length);
}

std::span<const TokenId> Session::cached() const { return state_->cache.tokens(); }

Result<std::int64_t> Session::rollback(std::int64_t length) {
  if (length < 0) return fail(Errc::invalid_argument, "[rollback] to {}; expected a length of at least 0", length);
  state_->cache.rollback(length);
  return state_->cache.length();
}

Result<void> Session::evaluate(std::span<const TokenId> tokens, std::int64_t from, const LogitVisitor& visit) {
  State& s = *state_;
  QUIRE_CHECK_OK(s.check_tokens(tokens));
  s.cache.rollback(0);
  const std::int64_t total = std::ssize(tokens);
  const auto vocabulary = static_cast<std::size_t>(s.model->info().vocabulary);
  std::vector<std::int64_t> rows;
  for (std::int64_t at = 0; at < total;) {
    const std::int64_t count = std::min(total - at, s.options.prefill_chunk);
    rows.clear();
    for (std::int64_t i = std::max(at, from); i < at + count; ++i) rows.push_back(i - at);
    QUIRE_TRY(const auto logits,
              s.compute(tokens.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count)), rows, total));
    for (std::size_t i = 0; i < rows.size(); ++i) visit(at + rows[i], logits.subspan(i * vocabulary, vocabulary));
    at += count;
  }
  return {};
}

void Session::reset() { state_->cache.rollback(0); }

CacheReport Session::cache() const {
  CacheReport report = state_->cache.report();
  report.off = state_->naive;
  if (report.off) report.bytes = 0, report.pages_open = 0;
  return report;
}

std::int64_t Session::context() const { return state_->cache.limit(); }
int Session::threads() const { return state_->machine->pool.size(); }
std::string_view Session::kernels() const { return state_->machine->ops.name; }

CacheFaults::CacheFaults(Session& session) : cache_(session.state_->cache) {}

}  // namespace quire
