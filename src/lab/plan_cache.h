// What a cache takes, before there is one: tokens x bytes by the formula, and in whole pages as
// the engine allocates them. All byte counts come from the layouts in kv/.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cache/policy/policy.h"
#include "kv/layout.h"
#include "lab/plan_model.h"
#include "quire/session.h"

namespace quire {

// The largest context and number of sequences that are planned for, and what stands for more bytes than can be counted.
inline constexpr std::int64_t kMostPlannedTokens = std::int64_t{1} << 28, kMostPlannedSequences = std::int64_t{1} << 20;
inline constexpr std::uint64_t kTooManyBytes = ~std::uint64_t{0};

struct CacheChoice {
  CacheSettings settings;         // formats and policy
  std::int64_t share_layers = 1;  // so many neighbouring layers keep one set of keys and values
  double shared_prefix = 0;       // part of every sequence that all have in common, kept once
  bool own_windows = false;       // local layers keep what their window sees, not everything
};

class CacheDemand {
 public:
  static Result<CacheDemand> create(const PlanModel& model, const CacheChoice& choice);

  double bytes_per_token() const;
  // Tokens of one sequence that the policy keeps in the layers that see most.
  std::int64_t kept_tokens(std::int64_t context) const;
  // What a policy lets a query see of all that is there.
  KvVisibility visible() const { return policy_->visible(); }

  // `sequences` sequences of `context` tokens each; the shared prefix counts once.
  std::uint64_t bytes(std::int64_t context, std::int64_t sequences) const;
  // The same in whole pages, with those that stay in 16 bits.
  std::uint64_t paged_bytes(std::int64_t context, std::int64_t sequences) const;
  // One buffer for all tokens of the context in every layer, whatever is kept or shared.
  std::uint64_t preallocated_bytes(std::int64_t context) const;

  std::int64_t sequences_within(std::uint64_t memory, std::int64_t context) const;
  std::int64_t paged_sequences_within(std::uint64_t memory, std::int64_t context) const;
  // The longest context that fits.
  std::int64_t context_within(std::uint64_t memory, std::int64_t sequences) const;

 private:
  struct Held {
    std::int64_t tokens, shared;
  };
  Held held(const KvGroupLayout& group, std::int64_t context) const;

  std::vector<KvGroupLayout> groups_;
  std::shared_ptr<const RetentionPolicy> policy_;
  double shared_prefix_ = 0;
};

}  // namespace quire
