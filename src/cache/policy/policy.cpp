#include "cache/policy/policy.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/fail.h"

namespace quire {
namespace {

struct Entry {
  std::string_view name;
  PolicyFactory make;
};
constexpr std::array<Entry, 5> kPolicies{
    {{"full", make_full}, {"window", make_window}, {"sinks", make_sinks}, {"h2o", make_h2o}, {"snapkv", make_snapkv}}};

constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;

}  // namespace

std::string_view policy_syntax() { return "full, window:N, sinks:S+N, h2o:N or h2o:P%, snapkv:N or snapkv:P%"; }

Result<std::unique_ptr<RetentionPolicy>> parse_policy(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const auto entry = std::ranges::find(kPolicies, name, &Entry::name);
  if (entry == kPolicies.end()) {
    return fail(Errc::invalid_argument, "cache policy '{}' is not known; expected {}", text, policy_syntax());
  }
  return entry->make(colon == std::string_view::npos ? "" : text.substr(colon + 1));
}

Result<std::int64_t> parse_count(std::string_view policy, std::string_view text) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || end != text.data() + text.size() || count < 1 || count > kMostTokens) {
    return fail(Errc::invalid_argument, "cache policy {}: '{}' is not a number of tokens; expected {}", policy, text,
                policy_syntax());
  }
  return count;
}

Result<TokenBudget> parse_budget(std::string_view policy, std::string_view text) {
  TokenBudget budget;
  if (!text.ends_with('%')) {
    QUIRE_TRY(budget.tokens, parse_count(policy, text));
    return budget;
  }
  QUIRE_TRY(const std::int64_t percent, parse_count(policy, text.substr(0, text.size() - 1)));
  if (percent > 100) {
    return fail(Errc::invalid_argument, "cache policy {}: {}% of the prompt; expected 1% to 100%", policy, percent);
  }
  budget.percent = static_cast<double>(percent);
  return budget;
}

std::int64_t TokenBudget::of(std::int64_t prompt) const {
  if (percent == 0) return tokens;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(prompt) * percent / 100));
}

std::string TokenBudget::text() const {
  return percent > 0 ? fmt::format("{}%", static_cast<int>(percent)) : fmt::format("{}", tokens);
}

}  // namespace quire
