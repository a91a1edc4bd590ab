#include "engine/beam_search.h"

#include <algorithm>
#include <cmath>

namespace quire {

std::vector<BeamSearch::Next> BeamSearch::advance(std::span<const Live> live, const std::function<bool(TokenId)>& ends,
                                                  bool may_end) {
  const std::size_t most = 2 * beams_;  // few of them are ends
  std::vector<Next> candidates;
  const auto likelier = [](const Next& a, const Next& b) {
    if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
    return a.parent != b.parent ? a.parent < b.parent : a.token < b.token;
  };
  for (std::size_t parent = 0; parent < live.size(); ++parent) {
    const auto logits = live[parent].logits;
    const auto allowed = live[parent].allowed;
    const double top = *std::ranges::max_element(logits);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - top);
    std::vector<Next> own;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (!allowed.empty() && (allowed[i / 64] >> (i % 64) & 1) == 0) continue;
      const double of_token = static_cast<double>(logits[i]) - top - std::log(sum);
      own.push_back({parent, static_cast<TokenId>(i), live[parent].log_probability + of_token});
    }
    const auto end = own.begin() + static_cast<std::ptrdiff_t>(std::min(most, own.size()));
    std::partial_sort(own.begin(), end, own.end(), likelier);
    candidates.insert(candidates.end(), own.begin(), end);
  }
  std::ranges::sort(candidates, likelier);
  std::vector<Next> next;
  for (const Next& candidate : candidates) {
    if (next.size() == beams_) break;
    if (!ends(candidate.token)) {
      next.push_back(candidate);
      continue;
    }
    if (!may_end) continue;
    const auto generated = live[candidate.parent].generated;
    finished_.push_back({{generated.begin(), generated.end()}, candidate.log_probability, true});
  }
  return next;
}

bool BeamSearch::settled(double best_live_log_probability, std::int64_t length) const {
  if (finished_.size() < beams_) return false;
  const double reachable = best_live_log_probability / static_cast<double>(length);
  return best(beams_).back().score() >= reachable;
}

std::vector<Hypothesis> BeamSearch::best(std::size_t count) const {
  std::vector<Hypothesis> sorted = finished_;
  std::ranges::stable_sort(sorted, std::greater{}, &Hypothesis::score);
  sorted.resize(std::min(count, sorted.size()));
  return sorted;
}

}  // namespace quire
