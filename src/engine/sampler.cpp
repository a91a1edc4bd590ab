#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "core/fail.h"

namespace quire {

Sampler::Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {}

Result<void> Sampler::validate(const SamplingOptions& o) {
  const auto check = [](bool good, const char* name, double value, const char* expected) -> Result<void> {
    if (good) return {};
    return fail(Errc::invalid_argument, "{} is {}; expected {}", name, value, expected);
  };
  QUIRE_CHECK_OK(check(o.temperature >= 0 && std::isfinite(o.temperature), "temperature", o.temperature, "0 or more"));
  QUIRE_CHECK_OK(check(o.top_k >= 0, "top-k", o.top_k, "0 (all) or more"));
  QUIRE_CHECK_OK(check(o.top_p > 0 && o.top_p <= 1, "top-p", o.top_p, "above 0, up to 1"));
  QUIRE_CHECK_OK(check(o.min_p >= 0 && o.min_p <= 1, "min-p", o.min_p, "0 to 1"));
  QUIRE_CHECK_OK(check(o.repeat_penalty > 0 && std::isfinite(o.repeat_penalty), "repeat penalty", o.repeat_penalty,
                       "above 0; 1 for none"));
  return check(o.repeat_last >= 0, "repeat-last", o.repeat_last, "0 or more");
}

TokenId Sampler::sample(std::span<const float> logits, std::span<const TokenId> history) {
  QUIRE_ASSERT(!logits.empty(), "sampling from no logits");
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    // A NaN would make sorting undefined.
    const float logit = std::isnan(logits[i]) ? -std::numeric_limits<float>::infinity() : logits[i];
    candidates_.push_back({static_cast<TokenId>(i), logit, 0});
  }
  penalize(history);
  if (options_.temperature == 0) {
    return std::ranges::max_element(candidates_, {}, &Candidate::logit)->token;  // the first of equals
  }
  keep_top_k();
  to_probabilities(1);
  keep_top_p();
  keep_min_p();
  to_probabilities(options_.temperature);

  const double draw = static_cast<double>(random_() >> 11) * 0x1p-53;  // uniform in [0, 1)
  double sum = 0;
  for (const Candidate& c : candidates_) {
    sum += c.probability;
    if (draw < sum) return c.token;
  }
  return candidates_.back().token;  // rounding left the sum just below 1
}

void Sampler::penalize(std::span<const TokenId> history) {
  if (options_.repeat_penalty == 1) return;
  const std::size_t count = std::min(history.size(), static_cast<std::size_t>(options_.repeat_last));
  std::vector<TokenId> recent(history.end() - static_cast<std::ptrdiff_t>(count), history.end());
  std::ranges::sort(recent);
  recent.erase(std::unique(recent.begin(), recent.end()), recent.end());
  for (const TokenId token : recent) {
    float& logit = candidates_[static_cast<std::size_t>(token)].logit;
    logit = logit > 0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
  }
}

// Likeliest first from here on; equals in the order of their ids, so that nothing is left to chance.
void Sampler::keep_top_k() {
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  };
  const std::size_t k =
      options_.top_k == 0 ? candidates_.size() : std::min(candidates_.size(), static_cast<std::size_t>(options_.top_k));
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(k), candidates_.end(),
                    before);
  candidates_.resize(k);
}

void Sampler::to_probabilities(float temperature) {
  double sum = 0;
  const double max = candidates_.front().logit;
  for (Candidate& c : candidates_) {
    sum += c.probability = std::exp((c.logit - max) / temperature);
  }
  for (Candidate& c : candidates_) c.probability /= sum;
}

void Sampler::keep_top_p() {
  if (options_.top_p >= 1) return;  // rounding could cut the tail
  double sum = 0;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    sum += candidates_[i].probability;
    if (sum >= static_cast<double>(options_.top_p)) {
      candidates_.resize(i + 1);
      return;
    }
  }
}

void Sampler::keep_min_p() {
  const double least = candidates_.front().probability * static_cast<double>(options_.min_p);
  const auto first_below = std::ranges::find_if(candidates_, [&](const Candidate& c) { return c.probability < least; });
  candidates_.erase(first_below, candidates_.end());
}

}  // namespace quire
