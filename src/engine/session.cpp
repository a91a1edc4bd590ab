#include "quire/session.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "cache/flat_cache.h"
#include "core/fail.h"
#include "core/statistics.h"
#include "engine/model_parts.h"
#include "engine/sampler.h"
#include "model/decoder.h"
#include "text/stream_decoder.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

Result<KvType> kv_type(std::string_view name) {
  if (name == "f16") return KvType::f16;
  if (name == "f32") return KvType::f32;
  return fail(Errc::invalid_argument, "cache type '{}' is not supported; expected f16 or f32", name);
}

std::size_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const auto [in_a, in_b] = std::ranges::mismatch(a, b);
  return static_cast<std::size_t>(in_a - a.begin());
}

}  // namespace

struct Session::State {
  State(std::shared_ptr<const Model> model_, const SessionOptions& options_, const Ops& ops_, FlatCache cache_)
      : model(std::move(model_)),
        options(options_),
        ops(ops_),
        pool(options_.threads > 0 ? options_.threads : usable_cpus()),
        decoder(model->parts().config, model->parts().weights, ops, pool),
        cache(std::move(cache_)) {}

  std::shared_ptr<const Model> model;
  SessionOptions options;
  const Ops& ops;
  ThreadPool pool;
  Decoder decoder;
  FlatCache cache;
  std::vector<TokenId> cached;  // the tokens whose keys and values the cache holds
  bool naive = false;           // the last generation used no cache: it holds nothing

  Result<void> check_tokens(std::span<const TokenId> tokens) const;
  void forget_from(std::size_t length);
  Result<std::span<const float>> prefill(std::span<const TokenId> tokens, const GenerateOptions& options);
  Result<std::span<const float>> next_logits(std::span<const TokenId> sequence, const GenerateOptions& options,
                                             Generation& result);
};

Result<Session> Session::create(std::shared_ptr<const Model> model, const SessionOptions& options) {
  if (options.prefill_chunk < 1) {
    return fail(Errc::invalid_argument, "a prefill chunk of {} tokens; expected at least 1", options.prefill_chunk);
  }
  if (options.threads < 0 || options.threads > 1024) {
    return fail(Errc::invalid_argument, "{} threads; expected 1 to 1024, or 0 for all", options.threads);
  }
  const ModelConfig& config = model->parts().config;
  if (options.context > config.context) {
    return fail(Errc::invalid_argument, "a context of {} tokens; {} was trained for {}, which is the most",
                options.context, config.name, config.context);
  }
  QUIRE_TRY(const Ops* ops, find_ops(options.kernels));
  QUIRE_TRY(const KvType key_type, kv_type(options.type_k));
  QUIRE_TRY(const KvType value_type, kv_type(options.type_v));
  QUIRE_TRY(FlatCache cache, FlatCache::create(config.kv_geometry(), options.context, key_type, value_type));
  return Session(std::make_unique<State>(std::move(model), options, *ops, std::move(cache)));
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
  if (std::ssize(tokens) > options.context) {
    return fail(
        Errc::context_full, "{} tokens do not fit in the context of {}; raise -c/--ctx-size{}", tokens.size(),
        options.context,
        options.context >= model->info().context ? ", or shorten the text: the model knows no more positions" : "");
  }
  return {};
}

void Session::State::forget_from(std::size_t length) {
  (void)cache.rollback(static_cast<std::int64_t>(length));  // fails only for negative lengths
  cached.resize(std::min(cached.size(), length));
}

// Computes tokens[cached.size() ...] in chunks; the logits of the last one.
Result<std::span<const float>> Session::State::prefill(std::span<const TokenId> tokens, const GenerateOptions& how) {
  std::span<const float> logits;
  const std::size_t total = tokens.size() - cached.size();
  for (std::size_t start = cached.size(), at = start; at < tokens.size();) {
    if (how.cancel != nullptr && how.cancel->load(std::memory_order_relaxed)) return Error{Errc::cancelled, "stopped"};
    const auto count = std::min(tokens.size() - at, static_cast<std::size_t>(options.prefill_chunk));
    const bool last = at + count == tokens.size();
    const auto last_row = static_cast<std::int64_t>(count) - 1;
    logits = decoder.forward({tokens.subspan(at, count),
                              static_cast<std::int64_t>(at),
                              cache.view(),
                              {&last_row, last ? std::size_t{1} : std::size_t{0}}});
    QUIRE_CHECK_OK(cache.advance(static_cast<std::int64_t>(count)));
    cached.insert(cached.end(), tokens.begin() + static_cast<std::ptrdiff_t>(at),
                  tokens.begin() + static_cast<std::ptrdiff_t>(at + count));
    at += count;
    if (how.on_prefill && total > 1) {
      how.on_prefill(static_cast<std::int64_t>(at - start), static_cast<std::int64_t>(total));
    }
  }
  return logits;
}

// Logits after the last token of the sequence: from the cache, or from nothing when it is off.
Result<std::span<const float>> Session::State::next_logits(std::span<const TokenId> sequence,
                                                           const GenerateOptions& how, Generation& result) {
  if (!how.use_cache) forget_from(0);
  result.computed_tokens += std::ssize(sequence) - std::ssize(cached);
  return prefill(sequence, how);
}

Result<Generation> Session::generate(std::span<const TokenId> prompt, const GenerateOptions& options) {
  State& s = *state_;
  if (prompt.empty()) return fail(Errc::invalid_argument, "the prompt is empty; give at least one token");
  QUIRE_CHECK_OK(s.check_tokens(prompt));
  QUIRE_CHECK_OK(Sampler::validate(options.sampling));
  s.naive = !options.use_cache;

  Generation result;
  const auto start = Clock::now();
  // What the cache shares with the prompt stays; at least one token is left to compute.
  if (options.use_cache) s.forget_from(std::min(common_prefix(s.cached, prompt), prompt.size() - 1));
  result.timings.cached_tokens = options.use_cache ? std::ssize(s.cached) : 0;
  result.timings.prompt_tokens = std::ssize(prompt) - result.timings.cached_tokens;

  std::vector<TokenId> sequence(prompt.begin(), prompt.end());
  Sampler sampler(options.sampling);
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
    if (!options.use_cache) s.forget_from(0);
    return result;
  };
  while (true) {
    if (options.max_tokens >= 0 && std::ssize(result.tokens) >= options.max_tokens) {
      return finish(StopReason::max_tokens);
    }
    if (std::ssize(sequence) > s.options.context) return finish(StopReason::context_full);
    const auto logits = s.next_logits(sequence, options, result);
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

Result<void> Session::evaluate(std::span<const TokenId> tokens, std::int64_t from, const LogitVisitor& visit) {
  State& s = *state_;
  QUIRE_CHECK_OK(s.check_tokens(tokens));
  s.forget_from(0);
  std::vector<std::int64_t> rows;
  for (std::int64_t at = 0; at < std::ssize(tokens);) {
    const std::int64_t count = std::min(std::ssize(tokens) - at, s.options.prefill_chunk);
    rows.clear();
    for (std::int64_t i = std::max(at, from); i < at + count; ++i) rows.push_back(i - at);
    const auto logits = s.decoder.forward(
        {tokens.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count)), at, s.cache.view(), rows});
    QUIRE_CHECK_OK(s.cache.advance(count));
    const auto vocabulary = static_cast<std::size_t>(s.model->info().vocabulary);
    for (std::size_t i = 0; i < rows.size(); ++i) visit(at + rows[i], logits.subspan(i * vocabulary, vocabulary));
    at += count;
  }
  s.cached.assign(tokens.begin(), tokens.end());
  return {};
}

void Session::reset() { state_->forget_from(0); }

CacheReport Session::cache() const {
  const FlatCache& cache = state_->cache;
  CacheReport report;
  report.type_k = state_->options.type_k;
  report.type_v = state_->options.type_v;
  report.page_tokens = cache.max_length();
  report.tokens = cache.current_length();
  report.bytes_per_token = cache.bytes_per_token();
  if (!state_->naive) {
    report.bytes = cache.bytes();
    report.pages_open = 1;  // a flat cache is one page that never fills
  }
  return report;
}

std::int64_t Session::context() const { return state_->options.context; }
int Session::threads() const { return state_->pool.size(); }
std::string_view Session::kernels() const { return state_->ops.name; }

}  // namespace quire
