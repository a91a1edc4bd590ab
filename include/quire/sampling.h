// How the next token is chosen.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "quire/token.h"

namespace quire {

// In this order: bias, penalties, top-k, typical, top-p, min-p, temperature.
struct SamplingOptions {
  float temperature = 0.8f;  // 0: always the likeliest token
  int top_k = 40;            // 0: all
  float typical_p = 1;       // 1: all; below: the tokens whose surprise is nearest to what is expected
  float top_p = 0.95f;       // 1: all
  float min_p = 0.05f;       // 0: all
  // Tokens among the last repeat_last are less likely:
  float repeat_penalty = 1;     // above 1: divided
  float presence_penalty = 0;   // above 0: lowered by this
  float frequency_penalty = 0;  // above 0: lowered by this for every time
  int repeat_last = 64;
  std::vector<std::pair<TokenId, float>> logit_bias;  // added; -100 and below: never
  std::uint64_t seed = 0;
};

}  // namespace quire
