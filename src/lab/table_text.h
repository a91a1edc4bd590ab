// Plain-text tables: a row a line, columns apart by spaces, '#' begins a comment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quire/result.h"

namespace quire {

struct TableRow {
  std::string_view file;
  std::int64_t line;
  std::vector<std::string_view> fields;  // the last one is the rest of the line

  // Fails, naming file, line and column, where the field is no number in that range.
  Result<double> real(std::size_t column, std::string_view name, double least, double most) const;
  Result<std::int64_t> integer(std::size_t column, std::string_view name, std::int64_t least, std::int64_t most) const;
  bool empty(std::size_t column) const { return fields[column] == "-"; }
};

// Views into `text` and `file`. Fails where a row has fewer columns.
Result<std::vector<TableRow>> parse_table(std::string_view text, std::string_view file, std::size_t columns);

// "did you mean X?" for a name that is not among `known`, or a list where nothing is near.
std::string suggestion(std::string_view name, const std::vector<std::string>& known);

// "400GiB", "80G" (both 2^30), "80GB" (10^9), "1.5T", or bytes.
Result<std::uint64_t> parse_size(std::string_view text);

}  // namespace quire
