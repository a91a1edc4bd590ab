#include "cache/strategy.h"

#include <charconv>

#include "core/fail.h"

namespace quire {

bool CacheStrategy::caches(std::int64_t tokens) const {
  if (kind == Kind::off) return false;
  return kind != Kind::long_sequences || tokens > threshold;
}

// Where one prompt token in ten is found again, cached pages earn their place; where none is, half
// of the memory is better left to sequences that come.
double CacheStrategy::share_to_keep(double hit_rate) const {
  constexpr double kPressure = 0.9, kUseless = 0.5, kGoodHitRate = 0.1;
  if (kind != Kind::adaptive) return 1;
  return hit_rate >= kGoodHitRate ? kPressure : kUseless + (kPressure - kUseless) * hit_rate / kGoodHitRate;
}

Result<CacheStrategy> parse_strategy(std::string_view text) {
  if (text == "always") return CacheStrategy{};
  if (text == "adaptive") return CacheStrategy{CacheStrategy::Kind::adaptive, 0};
  if (text == "off") return CacheStrategy{CacheStrategy::Kind::off, 0};
  CacheStrategy strategy{CacheStrategy::Kind::long_sequences, 0};
  if (text.starts_with("long:")) {
    const std::string_view number = text.substr(5);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), strategy.threshold);
    if (error == std::errc{} && end == number.data() + number.size() && strategy.threshold >= 0) return strategy;
  }
  return fail(Errc::invalid_argument, "cache strategy '{}' is not known; expected always, long:N, adaptive or off",
              text);
}

}  // namespace quire
