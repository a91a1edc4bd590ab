#include "lab/perplexity.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/check.h"
#include "core/fail.h"
#include "core/statistics.h"
#include "engine/sampler.h"

namespace quire {
namespace {

// log of the sum of exp(x), in double: 262,144 float terms would lose digits.
double log_sum_exp(std::span<const float> x) {
  const double max = *std::ranges::max_element(x);
  double sum = 0;
  for (const float v : x) sum += std::exp(v - max);
  return max + std::log(sum);
}

class Scores {
 public:
  void add(double negative_log_likelihood) { losses_.push_back(negative_log_likelihood); }
  void add_divergence(double nats, bool same_top) {
    divergences_.push_back(nats);
    same_top_ += same_top;
  }

  PerplexityReport report(std::int64_t chunks, std::int64_t ctx) const {
    PerplexityReport r;
    r.chunks = chunks;
    r.ctx = ctx;
    r.scored_tokens = std::ssize(losses_);
    const auto n = static_cast<double>(losses_.size());
    const double mean = std::accumulate(losses_.begin(), losses_.end(), 0.0) / n;
    double squares = 0;
    for (const double loss : losses_) squares += (loss - mean) * (loss - mean);
    r.perplexity = std::exp(mean);
    r.standard_error = n > 1 ? std::sqrt(squares / n / (n - 1)) * r.perplexity : 0;
    if (!divergences_.empty()) {
      std::vector<double> sorted = divergences_;
      std::ranges::sort(sorted);
      const auto count = static_cast<double>(sorted.size());
      r.divergence = Divergence{std::accumulate(sorted.begin(), sorted.end(), 0.0) / count, percentile(sorted, 0.5),
                                percentile(sorted, 0.99), 100.0 * static_cast<double>(same_top_) / count};
    }
    return r;
  }

 private:
  std::vector<double> losses_, divergences_;
  std::int64_t same_top_ = 0;
};

}  // namespace

double kl_divergence(std::span<const float> base, std::span<const float> other) {
  const double base_norm = log_sum_exp(base), other_norm = log_sum_exp(other);
  double sum = 0;
  for (std::size_t i = 0; i < base.size(); ++i) {
    const double log_p = base[i] - base_norm;
    sum += std::exp(log_p) * (log_p - (other[i] - other_norm));
  }
  return std::max(sum, 0.0);  // rounding may leave it just below
}

double loss(std::span<const float> logits, TokenId token) {
  return log_sum_exp(logits) - static_cast<double>(logits[static_cast<std::size_t>(token)]);
}

Result<PerplexityReport> perplexity(const Model& model, Session& session, std::span<const TokenId> tokens,
                                    const PerplexityOptions& options) {
  Session* const one = &session;
  QUIRE_TRY(const std::vector<PerplexityReport> reports, perplexities(model, {&one, 1}, tokens, options));
  return reports.front();
}

Result<std::vector<PerplexityReport>> perplexities(const Model& model, std::span<Session* const> sessions,
                                                   std::span<const TokenId> tokens, const PerplexityOptions& options) {
  QUIRE_ASSERT(!sessions.empty(), "nobody to measure");
  std::int64_t context = sessions.front()->context();
  for (const Session* session : sessions) context = std::min(context, session->context());
  if (options.ctx < 4 || options.ctx > context) {
    return fail(Errc::invalid_argument, "chunks of {} tokens; expected 4 to the context of {}", options.ctx, context);
  }
  if (options.skip < 0 || options.stride < 0 || options.score_last < 0 || options.score_last >= options.ctx) {
    return fail(
        Errc::invalid_argument,
        "skip {}, stride {} and {} scored tokens of {}; expected none below 0, and fewer scored than a chunk has",
        options.skip, options.stride, options.score_last, options.ctx);
  }
  const std::int64_t stride = options.stride > 0 ? options.stride : options.ctx;
  const std::int64_t after_first = std::ssize(tokens) - options.skip - options.ctx;
  if (after_first < 0) {
    return fail(Errc::invalid_argument, "the text has {} tokens; one chunk needs {} after the {} skipped",
                tokens.size(), options.ctx, options.skip);
  }
  const std::int64_t available = after_first / stride + 1;
  const std::int64_t chunks = options.chunks > 0 ? std::min(options.chunks, available) : available;
  const std::int64_t first = options.score_last > 0 ? options.ctx - 1 - options.score_last : options.ctx / 2;
  const auto vocabulary = static_cast<std::size_t>(model.info().vocabulary);
  const std::vector<TokenId> bos = model.adds_bos() ? model.tokenize("") : std::vector<TokenId>{};

  std::vector<Scores> scores(sessions.size());
  std::vector<float> base_logits;
  for (std::int64_t c = 0; c < chunks; ++c) {
    const std::int64_t begin = options.skip + c * stride;
    std::vector<TokenId> chunk(tokens.begin() + begin, tokens.begin() + begin + options.ctx);
    if (!bos.empty()) chunk.front() = bos.front();
    if (options.base != nullptr) {
      if (options.cancel != nullptr && options.cancel->load()) return Error{Errc::cancelled, "stopped"};
      base_logits.clear();
      QUIRE_CHECK_OK(options.base->evaluate(chunk, first, [&](std::int64_t, std::span<const float> logits) {
        base_logits.insert(base_logits.end(), logits.begin(), logits.end());
      }));
    }
    for (std::size_t s = 0; s < sessions.size(); ++s) {
      if (options.cancel != nullptr && options.cancel->load()) return Error{Errc::cancelled, "stopped"};
      QUIRE_CHECK_OK(sessions[s]->evaluate(chunk, first, [&](std::int64_t i, std::span<const float> logits) {
        if (i + 1 >= options.ctx) return;  // nothing follows the last token
        const double nats = loss(logits, chunk[static_cast<std::size_t>(i) + 1]);
        scores[s].add(nats);
        if (s == 0 && options.on_token) options.on_token(begin + i + 1, nats);
        if (options.base != nullptr) {
          const std::span<const float> base(base_logits.data() + static_cast<std::size_t>(i - first) * vocabulary,
                                            vocabulary);
          scores[s].add_divergence(kl_divergence(base, logits), likeliest(base) == likeliest(logits));
        }
      }));
    }
    if (options.on_chunk) options.on_chunk(scores.front().report(c + 1, options.ctx));
  }
  std::vector<PerplexityReport> reports;
  reports.reserve(scores.size());
  for (const Scores& of_session : scores) reports.push_back(of_session.report(chunks, options.ctx));
  return reports;
}

}  // namespace quire
