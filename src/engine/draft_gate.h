// Whether guessing pays for one request: after guesses that mostly failed it rests, longer each time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace quire {

class DraftGate {
 public:
  // Asked once a step: whether to guess in it.
  bool open() {
    if (resting_ == 0) return true;
    --resting_;
    return false;
  }
  // Of `drafted` guesses so many came true.
  void learn(std::int64_t drafted, std::int64_t accepted) {
    if (drafted == 0) return;
    share_ += kWeightOfNew * (static_cast<double>(accepted) / static_cast<double>(drafted) - share_);
    if (share_ >= kPays) {
      rest_ = kFirstRest;
      return;
    }
    resting_ = rest_;
    rest_ = std::min(2 * rest_, kLongestRest);
    share_ = kPays;  // the next guess decides
  }

 private:
  static constexpr double kPays = 0.25;  // a guess costs a good tenth of a step
  static constexpr double kWeightOfNew = 0.3;
  static constexpr std::int64_t kFirstRest = 4, kLongestRest = 64;

  double share_ = 0.5;  // of guesses that come true
  std::int64_t resting_ = 0, rest_ = kFirstRest;
};

}  // namespace quire
