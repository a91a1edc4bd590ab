// Choosing the next token from logits.
#pragma once

#include <random>
#include <span>
#include <vector>

#include "quire/session.h"

namespace quire {

// The same seed and the same logits give the same tokens, on any machine.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);

  // history: the tokens so far, for the repetition penalty.
  TokenId sample(std::span<const float> logits, std::span<const TokenId> history);

  static Result<void> validate(const SamplingOptions& options);

 private:
  struct Candidate {
    TokenId token;
    float logit;
    double probability;
  };

  void penalize(std::span<const TokenId> history);
  void keep_top_k();
  void to_probabilities(float temperature);
  void keep_top_p();
  void keep_min_p();

  SamplingOptions options_;
  std::mt19937_64 random_;
  std::vector<Candidate> candidates_;
};

}  // namespace quire
