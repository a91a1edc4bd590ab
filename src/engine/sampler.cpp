#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "core/fail.h"

namespace quire {

Sampler::Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {}

Result<void> Sampler::validate(const SamplingOptions& o, std::int64_t vocabulary) {
  const auto check = [](bool good, const char* name, double value, const char* expected) -> Result<void> {
    if (good) return {};
    return fail(Errc::invalid_argument, "{} is {}; expected {}", name, value, expected);
  };
  QUIRE_CHECK_OK(check(o.temperature >= 0 && std::isfinite(o.temperature), "temperature", o.temperature, "0 or more"));
  QUIRE_CHECK_OK(check(o.top_k >= 0, "top-k", o.top_k, "0 (all) or more"));
  QUIRE_CHECK_OK(check(o.typical_p >= 0 && o.typical_p <= 1, "typical-p", o.typical_p, "0 to 1"));
  QUIRE_CHECK_OK(check(o.top_p >= 0 && o.top_p <= 1, "top-p", o.top_p, "0 to 1"));
  QUIRE_CHECK_OK(check(o.min_p >= 0 && o.min_p <= 1, "min-p", o.min_p, "0 to 1"));
  QUIRE_CHECK_OK(check(o.repeat_penalty > 0 && std::isfinite(o.repeat_penalty), "repeat penalty", o.repeat_penalty,
                       "above 0; 1 for none"));
  const auto moderate = [](float x) { return x >= -2 && x <= 2; };
  QUIRE_CHECK_OK(check(moderate(o.presence_penalty), "presence penalty", o.presence_penalty, "-2 to 2"));
  QUIRE_CHECK_OK(check(moderate(o.frequency_penalty), "frequency penalty", o.frequency_penalty, "-2 to 2"));
  for (const auto& [token, bias] : o.logit_bias) {
    if (token < 0 || token >= vocabulary) {
      return fail(Errc::invalid_argument, "logit bias: token {} is outside the vocabulary of {}", token, vocabulary);
    }
    QUIRE_CHECK_OK(check(!std::isnan(bias), "logit bias", bias, "a number"));
  }
  return check(o.repeat_last >= 0, "repeat-last", o.repeat_last, "0 or more");
}

bool Sampler::changes_logits() const {
  return options_.repeat_penalty != 1 || options_.presence_penalty != 0 || options_.frequency_penalty != 0 ||
         !options_.logit_bias.empty();
}

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

}  // namespace

// The first of the largest, whatever is not a number left out. Largest ones of many lanes are found side by side: no
// comparison waits for the one before.
TokenId likeliest(std::span<const float> logits) {
  constexpr std::size_t kLanes = 32;
  std::array<float, kLanes> largest;
  largest.fill(kNever);
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      largest[lane] = logits[i + lane] > largest[lane] ? logits[i + lane] : largest[lane];
    }
  }
  for (; i < logits.size(); ++i) largest[0] = logits[i] > largest[0] ? logits[i] : largest[0];
  const auto found = std::ranges::find(logits, *std::ranges::max_element(largest));
  return found == logits.end() ? 0 : static_cast<TokenId>(found - logits.begin());
}

TokenId Sampler::sample(std::span<const float> logits, std::span<const TokenId> history,
                        std::span<const std::uint64_t> allowed) {
  QUIRE_ASSERT(!logits.empty(), "sampling from no logits");
  if (options_.temperature == 0 && allowed.empty()) {
    if (!changes_logits()) return likeliest(logits);
    adjust(logits, history);
    return likeliest(adjusted_);
  }
  if (!keeps_all()) return draw(distribution(logits, history, allowed));
  adjust(logits, history);
  forbid_others(allowed);
  weights_.weigh(adjusted_, options_.temperature);
  return weights_.total() > 0 ? weights_.at(uniform()) : likeliest(adjusted_);
}

std::span<const TokenChance> Sampler::distribution(std::span<const float> logits, std::span<const TokenId> history,
                                                   std::span<const std::uint64_t> allowed) {
  adjust(logits, history);
  chances_.clear();
  if (options_.temperature > 0 && options_.top_k == 0 && options_.typical_p >= 1) {
    forbid_others(allowed);
    take_likely();
  } else {
    take_candidates(allowed);
    QUIRE_ASSERT(!candidates_.empty(), "no token may come");
    if (options_.temperature == 0) {
      chances_.push_back({candidates_.front().token, 1});
      return chances_;
    }
    to_probabilities(1);
    keep_typical();
  }
  keep_top_p();
  keep_min_p();
  to_probabilities(options_.temperature);
  for (const Candidate& c : candidates_) chances_.push_back({c.token, c.probability});
  return chances_;
}

TokenId Sampler::draw(std::span<const TokenChance> chances) {
  if (chances.size() == 1) return chances[0].token;
  const double drawn = uniform();
  double sum = 0;
  for (const TokenChance& chance : chances) {
    sum += chance.probability;
    if (drawn < sum) return chance.token;
  }
  return chances.back().token;  // rounding left the sum just below 1
}

TokenId Sampler::correct(TokenId guess, std::span<const TokenChance> guessed, std::span<const TokenChance> wanted) {
  const auto chance_of = [](std::span<const TokenChance> chances, TokenId token) {
    const auto found = std::ranges::find(chances, token, &TokenChance::token);
    return found == chances.end() ? 0 : found->probability;
  };
  const double wish = chance_of(wanted, guess), had = chance_of(guessed, guess);
  if (wish >= had || uniform() * had < wish) return guess;
  // What the guesses leave short of the wish.
  std::vector<TokenChance> rest;
  double sum = 0;
  for (const TokenChance& chance : wanted) {
    const double more = chance.probability - chance_of(guessed, chance.token);
    if (more <= 0) continue;
    rest.push_back({chance.token, more});
    sum += more;
  }
  if (rest.empty()) return draw(wanted);  // rounding alone: the two are the same
  for (TokenChance& chance : rest) chance.probability /= sum;
  return draw(rest);
}

bool Sampler::keeps_all() const {
  return options_.temperature > 0 && options_.top_k == 0 && options_.typical_p >= 1 && options_.top_p >= 1 &&
         options_.min_p == 0;
}

void Sampler::adjust(std::span<const float> logits, std::span<const TokenId> history) {
  adjusted_.resize(logits.size());
  // A NaN would make sorting undefined.
  std::ranges::transform(logits, adjusted_.begin(), [](float logit) { return std::isnan(logit) ? kNever : logit; });
  penalize(history);
}

void Sampler::penalize(std::span<const TokenId> history) {
  if (!changes_logits()) return;
  for (const auto& [token, bias] : options_.logit_bias) {
    float& logit = adjusted_[static_cast<std::size_t>(token)];
    logit = bias <= -100 ? kNever : logit + bias;
  }
  const std::size_t count = std::min(history.size(), static_cast<std::size_t>(options_.repeat_last));
  std::vector<TokenId> recent(history.end() - static_cast<std::ptrdiff_t>(count), history.end());
  std::ranges::sort(recent);
  for (auto first = recent.begin(); first != recent.end();) {
    const auto last = std::upper_bound(first, recent.end(), *first);
    float& logit = adjusted_[static_cast<std::size_t>(*first)];
    logit = logit > 0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
    logit -= options_.presence_penalty + options_.frequency_penalty * static_cast<float>(last - first);
    first = last;
  }
}

bool Sampler::likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// The likeliest k that may come, likeliest first; equals in the order of their ids, so that nothing is left to chance.
// Few of a vocabulary ever belong to the best so far: one comparison each for the rest.
void Sampler::take_candidates(std::span<const std::uint64_t> allowed) {
  const std::size_t all = adjusted_.size();
  std::size_t k = options_.top_k == 0 ? all : std::min(all, static_cast<std::size_t>(options_.top_k));
  if (options_.temperature == 0) k = 1;
  candidates_.clear();
  for (std::size_t i = 0; i < all; ++i) {
    if (candidates_.size() == k && adjusted_[i] <= candidates_.front().logit) continue;
    if (!allowed.empty() && (allowed[i / 64] >> (i % 64) & 1) == 0) continue;
    if (candidates_.size() == k) {
      std::ranges::pop_heap(candidates_, likelier);
      candidates_.pop_back();
    }
    candidates_.push_back({static_cast<TokenId>(i), adjusted_[i], 0});
    if (k < all) std::ranges::push_heap(candidates_, likelier);
  }
  std::ranges::sort(candidates_, likelier);
}

void Sampler::forbid_others(std::span<const std::uint64_t> allowed) {
  for (std::size_t i = 0; i < adjusted_.size() && !allowed.empty(); ++i) {
    if ((allowed[i / 64] >> (i % 64) & 1) == 0) adjusted_[i] = kNever;
  }
}

// Those that top-p and min-p could keep, likeliest first, with their chances among all: few of a vocabulary, which is
// never put in order as a whole.
void Sampler::take_likely() {
  weights_.weigh(adjusted_, 1);
  const double enough = static_cast<double>(options_.top_p) * weights_.total();
  constexpr float kSmaller = 1 / 16.f, kTooSmall = 1e-12f;
  float least = options_.top_p < 1 ? kSmaller : 0;
  while (least > kTooSmall && weights_.total_from(least) < enough) least *= kSmaller;
  if (least <= kTooSmall) least = 0;
  least = std::max(least, options_.min_p * (1 - 1e-6f));  // keep_min_p decides
  candidates_.clear();
  for (std::size_t i = 0; i < adjusted_.size(); ++i) {
    const float weight = weights_.all()[i];
    if (weight < least || weight == 0) continue;
    candidates_.push_back({static_cast<TokenId>(i), adjusted_[i], static_cast<double>(weight) / weights_.total()});
  }
  if (candidates_.empty()) candidates_.push_back({likeliest(adjusted_), 0, 1});
  std::ranges::sort(candidates_, likelier);
}

void Sampler::to_probabilities(float temperature) {
  double sum = 0;
  const double max = candidates_.front().logit;
  for (Candidate& c : candidates_) {
    sum += c.probability = std::exp((c.logit - max) / temperature);
  }
  for (Candidate& c : candidates_) c.probability /= sum;
}

void Sampler::keep_typical() {
  if (options_.typical_p >= 1) return;
  double entropy = 0;
  const auto surprise = [](const Candidate& c) { return c.probability > 0 ? -std::log(c.probability) : 1e9; };
  for (const Candidate& c : candidates_) entropy += c.probability > 0 ? c.probability * surprise(c) : 0;
  std::ranges::stable_sort(candidates_, {}, [&](const Candidate& c) { return std::abs(surprise(c) - entropy); });
  double sum = candidates_.front().probability;
  std::size_t kept = 1;
  while (kept < candidates_.size() && sum < static_cast<double>(options_.typical_p)) {
    sum += candidates_[kept++].probability;
  }
  candidates_.resize(kept);
  std::ranges::sort(candidates_, likelier);
  to_probabilities(1);
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
