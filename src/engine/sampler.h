// Choosing the next token from logits.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "core/ids.h"
#include "quire/result.h"
#include "quire/sampling.h"

namespace quire {

// The same seed and the same logits give the same tokens, on any machine.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);

  // history: the tokens so far, for the penalties. allowed: bit i says whether token i may come; empty: all may.
  TokenId sample(std::span<const float> logits, std::span<const TokenId> history,
                 std::span<const std::uint64_t> allowed = {});

  static Result<void> validate(const SamplingOptions& options, std::int64_t vocabulary);

 private:
  struct Candidate {
    TokenId token;
    float logit;
    double probability;
  };

  static bool likelier(const Candidate& a, const Candidate& b);
  bool changes_logits() const;
  void penalize(std::span<const TokenId> history);
  void keep_top_k();
  void to_probabilities(float temperature);
  void keep_typical();
  void keep_top_p();
  void keep_min_p();

  SamplingOptions options_;
  std::mt19937_64 random_;
  std::vector<Candidate> candidates_;
};

}  // namespace quire
