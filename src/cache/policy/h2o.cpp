// Heavy hitters (H2O): half of the budget goes to the most recent tokens, half to those that got
// the most attention so far, in each head by itself.
#include <fmt/format.h>

#include <algorithm>

#include "cache/policy/policy.h"
#include "core/fail.h"

namespace quire {
namespace {

constexpr double kRecentShare = 0.5;

class HeavyHitters : public RetentionPolicy {
 public:
  explicit HeavyHitters(TokenBudget budget) : budget_(budget) {}
  std::string name() const override { return fmt::format("h2o:{}", budget_.text()); }

  std::int64_t scored_rows(const RetentionState&, std::int64_t rows) const override { return rows; }

  // Pages leave the recent part whole, and only when there is somebody to let go.
  std::optional<Eviction> evict(const RetentionState& state) const override {
    const std::int64_t budget = budget_.of(state.prompt);
    const auto recent = static_cast<std::int64_t>(static_cast<double>(budget) * kRecentShare);
    const std::int64_t heavy = budget - recent;
    const std::int64_t first = (state.length - recent) / kPageTokens * kPageTokens;
    const std::int64_t candidates = state.kept + first - state.first_position;
    if (state.length <= recent || first <= state.first_position || candidates <= heavy) return std::nullopt;
    return Eviction{first, heavy};
  }

 private:
  TokenBudget budget_;
};

}  // namespace

Result<std::unique_ptr<RetentionPolicy>> make_h2o(std::string_view arguments) {
  QUIRE_TRY(const TokenBudget budget, parse_budget("h2o", arguments));
  return std::unique_ptr<RetentionPolicy>(std::make_unique<HeavyHitters>(budget));
}

}  // namespace quire
