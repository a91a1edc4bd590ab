#include "grammar/schema_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "core/fail.h"
#include "grammar/json_rules.h"

namespace quire::grammar {
namespace {

using Expr = GrammarBuilder::Expr;

constexpr std::int64_t kLargest = 999'999'999'999'999;  // kMostDigits nines
constexpr double kSmallestBound = 1e-9;

// A bound without its sign, digit by digit.
struct Magnitude {
  std::int64_t whole = 0;
  std::string fraction = {};  // without zeros at its end
  bool exclusive = false;
};

bool is_above(const Magnitude& a, const Magnitude& b) {
  return a.whole != b.whole ? a.whole > b.whole : a.fraction > b.fraction;
}

class DigitRules {
 public:
  explicit DigitRules(GrammarBuilder& builder) : builder_(builder) {}

  Expr whole_between(std::int64_t low, std::int64_t high) {
    std::vector<Expr> options;
    std::int64_t from = 0, to = 9;  // all numbers of one length
    for (; from <= high; from = to + 1, to = to * 10 + 9) {
      if (to < low) continue;
      options.push_back(same_length(std::to_string(std::max(low, from)), std::to_string(std::min(high, to))));
    }
    return builder_.choice(std::move(options));
  }

  // low and high: of one sign, low not above high.
  Expr between(const Magnitude& low, const Magnitude& high) {
    if (low.whole == high.whole) {
      return builder_.sequence({builder_.literal(std::to_string(low.whole)), fraction_between(low, high)});
    }
    std::vector<Expr> options{
        builder_.sequence({builder_.literal(std::to_string(low.whole)), fraction_from(low)}),
        builder_.sequence({builder_.literal(std::to_string(high.whole)), fraction_up_to(high)}),
    };
    if (low.whole + 1 < high.whole) {
      options.push_back(builder_.sequence({whole_between(low.whole + 1, high.whole - 1), any_fraction()}));
    }
    return builder_.choice(std::move(options));
  }

 private:
  Expr nothing() { return builder_.chars({}); }
  Expr digit(char first, char last) {
    if (first > last) return nothing();
    return builder_.chars({{static_cast<unsigned char>(first), static_cast<unsigned char>(last)}});
  }
  Expr any_digits(std::size_t least, std::size_t most) {
    return builder_.repeat(digit('0', '9'), static_cast<std::uint32_t>(least), static_cast<std::uint32_t>(most));
  }
  Expr any_digits_behind(std::size_t used) { return any_digits(0, used < kMostDigits ? kMostDigits - used : 0); }
  Expr any_fraction() {
    return builder_.optional(builder_.sequence({builder_.literal("."), any_digits(1, kMostDigits)}));
  }
  Expr zero_fraction() { return builder_.optional(builder_.literal(".0")); }

  Expr same_length(std::string_view low, std::string_view high) {
    const std::size_t length = low.size();
    if (low == high) return builder_.literal(low);
    const bool all_below = low.substr(1).find_first_not_of('0') == low.npos;
    const bool all_above = high.substr(1).find_first_not_of('9') == high.npos;
    if (all_below && all_above) return builder_.sequence({digit(low[0], high[0]), any_digits(length - 1, length - 1)});
    if (low[0] == high[0]) {
      return builder_.sequence({builder_.literal(low.substr(0, 1)), same_length(low.substr(1), high.substr(1))});
    }
    const std::string nines(length - 1, '9');
    const std::string zeros(length - 1, '0');
    const char after_low = static_cast<char>(low[0] + 1);
    const char before_high = static_cast<char>(high[0] - 1);
    return builder_.choice({
        builder_.sequence({builder_.literal(low.substr(0, 1)), same_length(low.substr(1), nines)}),
        builder_.sequence({digit(after_low, before_high), any_digits(length - 1, length - 1)}),
        builder_.sequence({builder_.literal(high.substr(0, 1)), same_length(zeros, high.substr(1))}),
    });
  }

  // Digits behind the point that are as much as `digits` or more, with `used` digits before them.
  Expr digits_from(std::string_view digits, bool exclusive, std::size_t used) {
    std::vector<Expr> options;
    for (std::size_t i = 0; i < digits.size(); ++i) {
      options.push_back(
          builder_.sequence({builder_.literal(digits.substr(0, i)), digit(static_cast<char>(digits[i] + 1), '9'),
                             any_digits_behind(used + i + 1)}));
    }
    const std::size_t behind = used + digits.size();
    const Expr more = builder_.sequence(
        {builder_.repeat(builder_.literal("0"), 0, 3), digit('1', '9'), any_digits_behind(behind + 4)});
    options.push_back(builder_.sequence({builder_.literal(digits), exclusive ? more : any_digits_behind(behind)}));
    return builder_.choice(std::move(options));
  }

  // As much as `digits` or less. may_end: whether there may be no digit at all.
  Expr digits_up_to(std::string_view digits, bool exclusive, std::size_t used, bool may_end) {
    std::vector<Expr> options;
    for (std::size_t i = 0; i < digits.size(); ++i) {
      if (i > 0 || may_end) options.push_back(builder_.literal(digits.substr(0, i)));
      options.push_back(
          builder_.sequence({builder_.literal(digits.substr(0, i)), digit('0', static_cast<char>(digits[i] - 1)),
                             any_digits_behind(used + i + 1)}));
    }
    options.push_back(exclusive ? nothing() : builder_.literal(digits));
    return builder_.choice(std::move(options));
  }

  Expr fraction_from(const Magnitude& low) {
    if (low.fraction.empty() && !low.exclusive) return any_fraction();
    return builder_.sequence({builder_.literal("."), digits_from(low.fraction, low.exclusive, 0)});
  }

  Expr fraction_up_to(const Magnitude& high) {
    if (high.fraction.empty()) return high.exclusive ? nothing() : zero_fraction();
    return builder_.optional(
        builder_.sequence({builder_.literal("."), digits_up_to(high.fraction, high.exclusive, 0, false)}));
  }

  Expr fraction_between(const Magnitude& low, const Magnitude& high) {
    if (low.fraction == high.fraction) {
      if (low.exclusive || high.exclusive) return nothing();
      return low.fraction.empty() ? zero_fraction() : builder_.literal("." + low.fraction);
    }
    std::string from = low.fraction;
    from.resize(std::max(from.size(), high.fraction.size()), '0');
    const auto differ = std::mismatch(high.fraction.begin(), high.fraction.end(), from.begin());
    const auto at = static_cast<std::size_t>(differ.first - high.fraction.begin());
    const std::string_view high_rest = std::string_view(high.fraction).substr(at + 1);
    const std::string_view low_rest = low.fraction.size() > at ? std::string_view(low.fraction).substr(at + 1) : "";
    const char after_low = static_cast<char>(from[at] + 1);
    const char before_high = static_cast<char>(high.fraction[at] - 1);
    const Expr behind = builder_.choice({
        builder_.sequence({builder_.literal(from.substr(at, 1)), digits_from(low_rest, low.exclusive, at + 1)}),
        builder_.sequence({digit(after_low, before_high), any_digits_behind(at + 1)}),
        builder_.sequence(
            {builder_.literal(high.fraction.substr(at, 1)), digits_up_to(high_rest, high.exclusive, at + 1, true)}),
    });
    const Expr point = builder_.sequence({builder_.literal("." + high.fraction.substr(0, at)), behind});
    const bool may_lack_point = low.fraction.empty() && !low.exclusive;
    return may_lack_point ? builder_.optional(point) : point;
  }

  GrammarBuilder& builder_;
};

Result<Magnitude> magnitude_of(const NumberBound& bound, const std::string& path) {
  const double value = std::abs(bound.value);
  if (!(value <= static_cast<double>(kLargest)) || (value != 0 && value < kSmallestBound)) {
    return fail(Errc::unsupported, "schema {}: the bound {} is outside what is supported: 0, or from {} to {}", path,
                bound.value, kSmallestBound, kLargest);
  }
  std::string text = fmt::format("{}", value);
  if (text.find('e') != text.npos) text = fmt::format("{:.15f}", value);
  Magnitude result{.whole = 0, .fraction = {}, .exclusive = bound.exclusive};
  const std::size_t point = std::min(text.find('.'), text.size());
  result.whole = std::stoll(text.substr(0, point));
  if (point < text.size()) result.fraction = text.substr(point + 1);
  result.fraction.erase(result.fraction.find_last_not_of('0') + 1);
  return result;
}

Error no_number(const std::string& path) {
  return fail(Errc::invalid_argument, "schema {}: no number lies within the bounds", path);
}

}  // namespace

Result<Expr> bounded_integer(GrammarBuilder& builder, const NumberBounds& bounds, const std::string& path) {
  const auto clamped = [](double value) {
    return static_cast<std::int64_t>(std::clamp(value, -static_cast<double>(kLargest), static_cast<double>(kLargest)));
  };
  std::int64_t low = -kLargest, high = kLargest;
  if (bounds.low) {
    const double whole = std::ceil(bounds.low->value);
    if (whole > static_cast<double>(kLargest)) return no_number(path);
    low = clamped(whole) + (bounds.low->exclusive && whole == bounds.low->value ? 1 : 0);
  }
  if (bounds.high) {
    const double whole = std::floor(bounds.high->value);
    if (whole < -static_cast<double>(kLargest)) return no_number(path);
    high = clamped(whole) - (bounds.high->exclusive && whole == bounds.high->value ? 1 : 0);
  }
  if (low > high) return no_number(path);
  DigitRules rules(builder);
  std::vector<Expr> options;
  if (high >= 0) options.push_back(rules.whole_between(std::max<std::int64_t>(low, 0), high));
  if (low < 0) {
    const std::int64_t nearest = high < 0 ? -high : 1;
    options.push_back(builder.sequence({builder.literal("-"), rules.whole_between(nearest, -low)}));
  }
  return builder.choice(std::move(options));
}

Result<Expr> bounded_number(GrammarBuilder& builder, const NumberBounds& bounds, const std::string& path) {
  const Magnitude zero;
  const Magnitude largest{.whole = kLargest, .fraction = {}, .exclusive = false};
  Magnitude low = largest, high = largest;  // how far from zero
  if (bounds.low) {
    QUIRE_TRY(low, magnitude_of(*bounds.low, path));
  }
  if (bounds.high) {
    QUIRE_TRY(high, magnitude_of(*bounds.high, path));
  }
  const bool low_is_negative = !bounds.low || bounds.low->value < 0;
  const bool high_is_negative = bounds.high && bounds.high->value < 0;

  DigitRules rules(builder);
  std::vector<Expr> options;
  const auto add = [&](std::string_view sign, const Magnitude& nearest, const Magnitude& farthest) {
    if (is_above(nearest, farthest)) return;
    options.push_back(builder.sequence({builder.literal(sign), rules.between(nearest, farthest)}));
  };
  if (!high_is_negative) add("", low_is_negative ? zero : low, high);
  if (low_is_negative)
    add("-", high_is_negative ? high : Magnitude{.whole = 0, .fraction = {}, .exclusive = true}, low);
  if (options.empty()) return no_number(path);
  return builder.choice(std::move(options));
}

Expr multiple_of(GrammarBuilder& builder, std::uint32_t divisor) {
  using Rule = GrammarBuilder::Rule;
  // rules[r]: the digits that may follow those with remainder r, so many at most.
  std::vector<Rule> rules;
  const auto next_digit = [&](char digit, std::uint32_t remainder) {
    const std::uint32_t after = (remainder * 10 + static_cast<std::uint32_t>(digit - '0')) % divisor;
    return builder.sequence({builder.literal(std::string_view(&digit, 1)), builder.call(rules[after])});
  };
  for (std::uint32_t r = 0; r < divisor; ++r)
    rules.push_back(builder.add(r == 0 ? builder.empty() : builder.chars({})));
  for (std::uint32_t more = 1; more < kMostDigits; ++more) {
    std::vector<Rule> longer;
    for (std::uint32_t r = 0; r < divisor; ++r) {
      std::vector<Expr> options;
      if (r == 0) options.push_back(builder.empty());
      for (char digit = '0'; digit <= '9'; ++digit) options.push_back(next_digit(digit, r));
      longer.push_back(builder.add(builder.choice(std::move(options))));
    }
    rules = std::move(longer);
  }
  std::vector<Expr> options;
  for (char digit = '1'; digit <= '9'; ++digit) options.push_back(next_digit(digit, 0));
  const Expr positive = builder.choice(std::move(options));
  return builder.choice({builder.literal("0"), builder.sequence({builder.optional(builder.literal("-")), positive})});
}

}  // namespace quire::grammar
