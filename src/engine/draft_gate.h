// How far to guess ahead for one request: further while guesses come true, and not at all for a
// while when they cost more than they bring.
#pragma once

#include <algorithm>
#include <cstdint>

namespace quire {

class DraftGate {
 public:
  // Asked once a step: how many tokens to guess in it.
  std::int64_t wanted() {
    if (resting_ == 0) return ahead_;
    --resting_;
    return 0;
  }
  // Of `drafted` guesses so many came true; the step took `cost` times what it takes without them.
  void learn(std::int64_t drafted, std::int64_t accepted, double cost) {
    if (drafted == 0) return;
    gain_ += kWeightOfNew * (static_cast<double>(1 + accepted) / cost - gain_);
    if (accepted == drafted) {
      ahead_ = std::min(2 * ahead_, kFarthest);
    } else {
      ahead_ = std::clamp(accepted + 1, kNearest, kFarthest);
    }
    if (gain_ >= 1) {
      rest_ = kFirstRest;
      return;
    }
    resting_ = rest_;
    rest_ = std::min(2 * rest_, kLongestRest);
    gain_ = 1;  // the next guess decides
    ahead_ = kNearest;
  }

 private:
  static constexpr double kWeightOfNew = 0.3;
  static constexpr std::int64_t kNearest = 2, kFarthest = 16, kFirstRest = 8, kLongestRest = 128;

  double gain_ = 1;  // tokens a step brings for what it costs
  std::int64_t ahead_ = kNearest, resting_ = 0, rest_ = kFirstRest;
};

}  // namespace quire
