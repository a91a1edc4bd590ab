// Guesses what comes next without a second model: where the last few tokens stood before, what
// followed them then.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/ids.h"

namespace quire {

class PromptLookup {
 public:
  // Up to `most` tokens that may follow `tokens`, which has grown at its end since the last call;
  // none where nothing is known.
  std::vector<TokenId> propose(std::span<const TokenId> tokens, std::int64_t most);

 private:
  void index(std::span<const TokenId> tokens);

  static constexpr std::int64_t kContext = 3;              // tokens that must agree
  std::unordered_map<std::uint64_t, std::int64_t> after_;  // hash of kContext tokens: where the latest of them ended
  std::int64_t indexed_ = 0;
};

}  // namespace quire
