#include "grammar/schema_strings.h"

#include <fmt/format.h>

#include <map>

namespace quire::grammar {
namespace {

// Of years that all libraries know, and without leap days: whether there is one depends on the year.
constexpr std::string_view kDate =
    R"([12]\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8])))";
constexpr std::string_view kTime = R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))";
constexpr std::string_view kLabel = R"([a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?)";

std::string duration() {
  const std::string time = R"(T(\d{1,4}H(\d{1,4}M(\d{1,4}S)?)?|\d{1,4}M(\d{1,4}S)?|\d{1,4}S))";
  const std::string months = R"(\d{1,4}M(\d{1,4}D)?)";
  return fmt::format(R"(P((\d{{1,4}}D|{}|\d{{1,4}}Y({})?)({})?|{}|\d{{1,4}}W))", months, months, time, time);
}

std::string ipv6() {
  const std::string group = "[0-9a-f]{1,4}";
  std::string pattern = fmt::format("({}:){{7}}{}", group, group);
  // "::" for two groups or more.
  for (int before = 0; before <= 6; ++before) {
    const int after = 6 - before;
    if (before > 0) {
      pattern += fmt::format("|{}(:{}){{{}}}::", group, group, before - 1);
    } else {
      pattern += "|::";
    }
    if (after > 0) pattern += fmt::format("({}(:{}){{0,{}}})?", group, group, after - 1);
  }
  return fmt::format("({})", pattern);
}

std::map<std::string, std::string, std::less<>> make_patterns() {
  const std::string octet = R"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";
  return {
      {"date", std::string(kDate)},
      {"time", std::string(kTime)},
      {"date-time", fmt::format("{}T{}", kDate, kTime)},
      {"duration", duration()},
      {"email", fmt::format(R"([A-Za-z0-9_+-]{{1,30}}(\.[A-Za-z0-9_+-]{{1,30}})?@{}(\.{}){{1,3}})", kLabel, kLabel)},
      {"hostname", fmt::format(R"({}(\.{}){{0,5}})", kLabel, kLabel)},
      {"ipv4", fmt::format(R"(({}\.){{3}}{})", octet, octet)},
      {"ipv6", ipv6()},
      {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
  };
}

}  // namespace

std::optional<std::string> pattern_of_format(std::string_view format) {
  static const auto patterns = make_patterns();
  const auto known = patterns.find(format);
  if (known == patterns.end()) return std::nullopt;
  return fmt::format("^{}$", known->second);
}

}  // namespace quire::grammar
