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

struct MeanOf {
  double mean = 0, error = 0;  // and its standard error

  explicit MeanOf(const std::vector<double>& samples) {
    const auto n = static_cast<double>(samples.size());
    mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
    double squares = 0;
    for (const double sample : samples) squares += (sample - mean) * (sample - mean);
    error = n > 1 ? std::sqrt(squares / n / (n - 1)) : 0;
  }
};

// Logits as probabilities: the sum over a vocabulary is worth keeping.
struct Prediction {
  std::span<const float> logits;
  double norm;

  explicit Prediction(std::span<const float> of) : logits(of), norm(log_sum_exp(of)) {}
  Prediction(std::span<const float> of, double known_norm) : logits(of), norm(known_norm) {}
  double loss(TokenId token) const { return norm - static_cast<double>(logits[static_cast<std::size_t>(token)]); }
};

double divergence(const Prediction& base, const Prediction& other) {
  double sum = 0;
  for (std::size_t i = 0; i < base.logits.size(); ++i) {
    const double log_p = base.logits[i] - base.norm;
    sum += std::exp(log_p) * (log_p - (other.logits[i] - other.norm));
  }
  return std::max(sum, 0.0);  // rounding may leave it just below
}

class Scores {
 public:
  void add(double negative_log_likelihood) { losses_.push_back(negative_log_likelihood); }
  void add_divergence(double nats, bool same_top, double loss_rise) {
    divergences_.push_back(nats);
    rises_.push_back(loss_rise);
    same_top_ += same_top;
  }

  PerplexityReport report(std::int64_t chunks, std::int64_t ctx) const {
    PerplexityReport r;
    r.chunks = chunks;
    r.ctx = ctx;
    r.scored_tokens = std::ssize(losses_);
    const MeanOf loss(losses_);
    r.perplexity = std::exp(loss.mean);
    r.standard_error = loss.error * r.perplexity;
    if (!divergences_.empty()) {
      std::vector<double> sorted = divergences_;
      std::ranges::sort(sorted);
      const auto count = static_cast<double>(sorted.size());
      const MeanOf rise(rises_);
      r.divergence = Divergence{std::accumulate(sorted.begin(), sorted.end(), 0.0) / count,
                                percentile(sorted, 0.5),
                                percentile(sorted, 0.99),
                                100.0 * static_cast<double>(same_top_) / count,
                                rise.mean,
                                rise.error};
    }
    return r;
  }

 private:
  std::vector<double> losses_, divergences_, rises_;
  std::int64_t same_top_ = 0;
};

}  // namespace

double kl_divergence(std::span<const float> base, std::span<const float> other) {
  return divergence(Prediction(base), Prediction(other));
}

double loss(std::span<const float> logits, TokenId token) { return Prediction(logits).loss(token); }

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
  Scores base_scores;
  std::vector<float> base_logits;
  std::vector<double> base_norms;
  for (std::int64_t c = 0; c < chunks; ++c) {
    const std::int64_t begin = options.skip + c * stride;
    std::vector<TokenId> chunk(tokens.begin() + begin, tokens.begin() + begin + options.ctx);
    if (!bos.empty()) chunk.front() = bos.front();
    const auto next = [&](std::int64_t i) { return chunk[static_cast<std::size_t>(i) + 1]; };
    if (options.base != nullptr) {
      if (options.cancel != nullptr && options.cancel->load()) return Error{Errc::cancelled, "stopped"};
      base_logits.clear();
      base_norms.clear();
      QUIRE_CHECK_OK(options.base->evaluate(chunk, first, [&](std::int64_t i, std::span<const float> logits) {
        if (i + 1 >= options.ctx) return;  // nothing follows the last token
        const Prediction prediction(logits);
        base_scores.add(prediction.loss(next(i)));
        base_logits.insert(base_logits.end(), logits.begin(), logits.end());
        base_norms.push_back(prediction.norm);
      }));
    }
    for (std::size_t s = 0; s < sessions.size(); ++s) {
      if (options.cancel != nullptr && options.cancel->load()) return Error{Errc::cancelled, "stopped"};
      QUIRE_CHECK_OK(sessions[s]->evaluate(chunk, first, [&](std::int64_t i, std::span<const float> logits) {
        if (i + 1 >= options.ctx) return;
        const Prediction prediction(logits);
        const double nats = prediction.loss(next(i));
        scores[s].add(nats);
        if (s == 0 && options.on_token) options.on_token(begin + i + 1, nats);
        if (options.base == nullptr) return;
        const auto row = static_cast<std::size_t>(i - first);
        const Prediction base({base_logits.data() + row * vocabulary, vocabulary}, base_norms[row]);
        scores[s].add_divergence(divergence(base, prediction), likeliest(base.logits) == likeliest(logits),
                                 nats - base.loss(next(i)));
      }));
    }
    if (options.on_chunk) {
      PerplexityReport so_far = scores.front().report(c + 1, options.ctx);
      so_far.planned_chunks = chunks;
      options.on_chunk(so_far);
    }
  }
  std::vector<PerplexityReport> reports;
  reports.reserve(scores.size());
  for (const Scores& of_session : scores) reports.push_back(of_session.report(chunks, options.ctx));
  if (options.base != nullptr) reports.push_back(base_scores.report(chunks, options.ctx));
  for (PerplexityReport& report : reports) report.planned_chunks = chunks;
  return reports;
}

}  // namespace quire
