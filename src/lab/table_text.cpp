#include "lab/table_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <numeric>

#include "core/fail.h"
#include "core/printable.h"

namespace quire {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// A stranger's text inside a message: short, and nothing that drives a terminal.
std::string shown(std::string_view text) {
  std::string out(text.substr(0, 40));
  std::ranges::replace_if(out, is_control, '?');
  return out;
}

template <class Number>
bool parse_number(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

std::vector<std::string_view> split(std::string_view line, std::size_t columns) {
  std::vector<std::string_view> fields;
  for (line = trimmed(line); !line.empty() && fields.size() + 1 < columns; line = trimmed(line)) {
    const auto end = std::ranges::find_if(line, is_space) - line.begin();
    fields.push_back(line.substr(0, static_cast<std::size_t>(end)));
    line.remove_prefix(static_cast<std::size_t>(end));
  }
  if (!line.empty()) fields.push_back(line);
  return fields;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

// Spellings differ in case, dots and dashes.
std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c))) out += static_cast<char>(std::tolower(c));
  }
  return out;
}

}  // namespace

Result<std::vector<TableRow>> parse_table(std::string_view text, std::string_view file, std::size_t columns) {
  std::vector<TableRow> rows;
  for (std::int64_t line_number = 1; !text.empty(); ++line_number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    TableRow row{file, line_number, split(line, columns)};
    if (row.fields.empty()) continue;
    if (row.fields.size() < columns) {
      return fail(Errc::bad_file, "{}, line {}: {} columns; expected {}, with '-' where there is nothing", file,
                  line_number, row.fields.size(), columns);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<double> TableRow::real(std::size_t column, std::string_view name, double least, double most) const {
  double value = 0;
  if (!parse_number(fields[column], value) || !(value >= least && value <= most)) {
    return fail(Errc::bad_file, "{}, line {}: {} is '{}'; expected a number from {} to {}", file, line, name,
                shown(fields[column]), least, most);
  }
  return value;
}

Result<std::int64_t> TableRow::integer(std::size_t column, std::string_view name, std::int64_t least,
                                       std::int64_t most) const {
  std::int64_t value = 0;
  if (!parse_number(fields[column], value) || value < least || value > most) {
    return fail(Errc::bad_file, "{}, line {}: {} is '{}'; expected a whole number from {} to {}", file, line, name,
                shown(fields[column]), least, most);
  }
  return value;
}

std::string suggestion(std::string_view name, const std::vector<std::string>& known) {
  const std::string asked = plain(name);
  std::vector<std::string> near;
  std::size_t nearest = std::max<std::size_t>(2, asked.size() / 3);
  for (const std::string& candidate : known) {
    const std::string other = plain(candidate);
    const bool begins = asked.size() >= 3 && other.starts_with(asked);
    const std::size_t distance = std::min<std::size_t>(edit_distance(asked, other), begins ? 1 : ~std::size_t{0});
    if (distance > nearest) continue;
    if (distance < nearest) near.clear();
    nearest = distance;
    near.push_back(candidate);
  }
  if (near.empty()) return fmt::format("known are {}.", fmt::join(known, ", "));
  return fmt::format("did you mean {}?", fmt::join(near, " or "));
}

Result<std::uint64_t> parse_size(std::string_view text) {
  constexpr std::string_view kPrefixes = "kmgtp";
  const auto wrong = [&] {
    return fail(
        Errc::invalid_argument,
        "'{}' is not a size; expected bytes, or a number with a unit such as 80G or 80GiB (2^30) or 80GB (10^9)",
        shown(text));
  };
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !(number >= 0)) return wrong();
  std::string unit;
  for (const char c : trimmed({end, static_cast<std::size_t>(text.data() + text.size() - end)})) {
    unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  const std::size_t prefix = unit.empty() ? std::string_view::npos : kPrefixes.find(unit[0]);
  double factor = 1;
  if (prefix != std::string_view::npos) {
    const std::string_view rest = std::string_view(unit).substr(1);
    if (rest != "" && rest != "b" && rest != "ib") return wrong();
    for (std::size_t i = 0; i <= prefix; ++i) factor *= rest == "b" ? 1000 : 1024;
  } else if (unit != "" && unit != "b") {
    return wrong();
  }
  constexpr double kMost = 1e18;
  if (number * factor > kMost) return wrong();
  return static_cast<std::uint64_t>(number * factor);
}

}  // namespace quire
