// How likely every token of a vocabulary is, for draws that neither cut nor order it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.h"

namespace quire {

class TokenWeights {
 public:
  // exp((logit - largest) / temperature) each: 1 for the likeliest, 0 where that is below e^-80. A logit of minus
  // infinity is a token that cannot come; where none can, all weights are 0.
  void weigh(std::span<const float> logits, float temperature);

  std::span<const float> all() const { return std::span(weights_).first(tokens_); }
  double total() const { return total_; }
  double total_from(float least) const;  // of weights not below

  // The token at `part` of the total, in [0, 1), in the order of ids. The total must not be 0.
  TokenId at(double part) const;

 private:
  std::size_t tokens_ = 0;
  std::vector<float> weights_;  // zeros beyond the vocabulary, to a whole block
  std::vector<double> blocks_;  // their sums
  double total_ = 0;
};

}  // namespace quire
