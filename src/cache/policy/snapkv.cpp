// SnapKV: when the prompt is complete, its last tokens vote by their attention on what to keep of
// the rest; what is generated afterwards stays. A vote counts for neighbouring tokens too, most of all for those that
// follow: an answer goes on with them, and nobody has asked for them yet.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cache/policy/policy.h"
#include "core/fail.h"

namespace quire {
namespace {

constexpr std::int64_t kVoters = 32;
constexpr std::int64_t kBefore = 3, kAfter = 6;  // tokens that a vote counts for too

class SnapKv : public RetentionPolicy {
 public:
  explicit SnapKv(TokenBudget budget) : budget_(budget) {}
  std::string name() const override { return fmt::format("snapkv:{}", budget_.text()); }

  std::int64_t scored_rows(const RetentionState& state, std::int64_t rows) const override {
    if (state.length >= state.prompt) return 0;
    const std::int64_t end = state.length + rows, first_voter = state.prompt - kVoters;
    return end <= first_voter ? 0 : std::min(rows, end - first_voter);
  }

  std::optional<Eviction> evict(const RetentionState& state) const override {
    if (state.length != state.prompt || state.first_position > 0) return std::nullopt;
    const std::int64_t first = std::max<std::int64_t>(0, state.length - kVoters) / kPageTokens * kPageTokens;
    const std::int64_t keep = std::max<std::int64_t>(0, budget_.of(state.prompt) - (state.length - first));
    if (first <= keep) return std::nullopt;
    return Eviction{first, keep};
  }

  void rank(std::span<float> sums) const override {
    const std::vector<float> votes(sums.begin(), sums.end());
    const std::int64_t count = std::ssize(sums);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t from = std::max<std::int64_t>(0, i - kAfter), to = std::min(count, i + kBefore + 1);
      sums[static_cast<std::size_t>(i)] = *std::max_element(votes.begin() + from, votes.begin() + to);
    }
  }

 private:
  TokenBudget budget_;
};

}  // namespace

Result<std::unique_ptr<RetentionPolicy>> make_snapkv(std::string_view arguments) {
  QUIRE_TRY(const TokenBudget budget, parse_budget("snapkv", arguments));
  return std::unique_ptr<RetentionPolicy>(std::make_unique<SnapKv>(budget));
}

}  // namespace quire
