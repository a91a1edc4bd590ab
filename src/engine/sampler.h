// Choosing the next token from logits.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "core/ids.h"
#include "engine/token_weights.h"
#include "quire/result.h"
#include "quire/sampling.h"

namespace quire {

struct TokenChance {
  TokenId token;
  double probability;
};

// The same seed and the same logits give the same tokens, on any machine.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);

  // history: the tokens so far, for the penalties. allowed: bit i says whether token i may come; empty: all may.
  TokenId sample(std::span<const float> logits, std::span<const TokenId> history,
                 std::span<const std::uint64_t> allowed = {});

  // What sample() draws from: tokens that may come, each with its chance. Valid until the next call.
  std::span<const TokenChance> distribution(std::span<const float> logits, std::span<const TokenId> history,
                                            std::span<const std::uint64_t> allowed = {});
  TokenId draw(std::span<const TokenChance> chances);
  // Rejection sampling: a token that was drawn from `guessed` becomes one that is drawn from `wanted`, the same
  // one as often as can be.
  TokenId correct(TokenId guess, std::span<const TokenChance> guessed, std::span<const TokenChance> wanted);

  static Result<void> validate(const SamplingOptions& options, std::int64_t vocabulary);

 private:
  struct Candidate {
    TokenId token;
    float logit;
    double probability;
  };

  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }  // in [0, 1)

  static bool likelier(const Candidate& a, const Candidate& b);
  bool changes_logits() const;
  bool keeps_all() const;  // whatever may come is drawn from
  void adjust(std::span<const float> logits, std::span<const TokenId> history);
  void penalize(std::span<const TokenId> history);
  void forbid_others(std::span<const std::uint64_t> allowed);
  void take_candidates(std::span<const std::uint64_t> allowed);
  void take_likely();
  void to_probabilities(float temperature);
  void keep_typical();
  void keep_top_p();
  void keep_min_p();

  SamplingOptions options_;
  std::mt19937_64 random_;
  std::vector<float> adjusted_;  // logits after penalties and biases
  TokenWeights weights_;
  std::vector<Candidate> candidates_;
  std::vector<TokenChance> chances_;
};

// The likeliest, and of equals the first.
TokenId likeliest(std::span<const float> logits);

}  // namespace quire
