// Several continuations of one prompt at a time, those that are likeliest as a whole.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/ids.h"

namespace quire {

struct Hypothesis {
  std::vector<TokenId> tokens;  // generated, without the one that ended it
  double log_probability = 0;   // of all of them, and of the end where it ended by itself
  bool ended = false;
  // Longer texts have more chances to be unlikely: per token, then.
  double score() const { return log_probability / static_cast<double>(tokens.size() + (ended ? 1 : 0)); }
};

class BeamSearch {
 public:
  explicit BeamSearch(int beams) : beams_(static_cast<std::size_t>(beams)) {}

  std::size_t beams() const { return beams_; }
  struct Live {
    std::span<const float> logits;
    std::span<const TokenId> generated;
    double log_probability;
    std::span<const std::uint64_t> allowed;  // bit i: token i may come; empty: all may
  };
  struct Next {
    std::size_t parent;  // among the live ones
    TokenId token;
    double log_probability;
  };
  // The beams that follow, likeliest first. Those that end go among the hypotheses, where they may.
  std::vector<Next> advance(std::span<const Live> live, const std::function<bool(TokenId)>& ends, bool may_end);
  // No live beam can become better than what is finished.
  bool settled(double best_live_log_probability, std::int64_t length) const;
  void add(Hypothesis hypothesis) { finished_.push_back(std::move(hypothesis)); }
  std::vector<Hypothesis> best(std::size_t count) const;

 private:
  std::size_t beams_;
  std::vector<Hypothesis> finished_;
};

}  // namespace quire
