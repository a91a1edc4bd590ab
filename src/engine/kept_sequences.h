// Sequences that nobody computes any more, kept with their last page, which the index does not know:
// whoever goes on from there computes only what is new. They leave when room is needed, those without a
// term first, of these the oldest.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cache/kv_cache.h"

namespace quire {

class KeptSequences {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::time_point kNoTerm{};

  KeptSequences(KvCache& cache, std::int64_t most) : cache_(cache), most_(most) {}

  // Who may go on from it.
  struct Kind {
    std::string salt, policy;
    bool operator==(const Kind&) const = default;
  };

  // Takes a sequence over.
  void add(SequenceId sequence, Kind kind, Clock::time_point until = kNoTerm);
  struct Match {
    SequenceId sequence = 0;
    std::int64_t tokens = 0;  // that it begins with
  };
  Match longest(const Kind& kind, std::span<const TokenId> tokens) const;

  void release(SequenceId sequence);  // if it is still there
  bool release_one();                 // false where there is none
  void release_expired(Clock::time_point now);
  // Those with a term that have exactly these tokens: so many there were.
  std::int64_t release_pinned(const Kind& kind, std::span<const TokenId> tokens);

 private:
  struct Kept {
    SequenceId sequence;
    Kind kind;
    Clock::time_point until;
  };

  template <class Goes>
  std::int64_t release_where(Goes&& goes);  // of those with a term

  KvCache& cache_;
  std::int64_t most_;       // without a term
  std::vector<Kept> kept_;  // oldest first
};

}  // namespace quire
