#include "lab/hardware.h"

#include <algorithm>

#include "core/check.h"
#include "core/fail.h"
#include "lab/embedded.h"
#include "lab/table_text.h"

namespace quire {

Result<std::vector<Hardware>> parse_hardware(std::string_view text, std::string_view file) {
  constexpr std::size_t kColumns = 6;
  constexpr double kGiB = 1 << 30;
  QUIRE_TRY(const std::vector<TableRow> rows, parse_table(text, file, kColumns));
  std::vector<Hardware> all;
  for (const TableRow& row : rows) {
    Hardware h;
    h.name = row.fields[0];
    QUIRE_TRY(h.memory_bytes, row.real(1, "memory (GiB)", 0.001, 1e6));
    QUIRE_TRY(h.read_per_second, row.real(2, "read (GB/s)", 0.001, 1e6));
    QUIRE_TRY(h.operations_per_second, row.real(3, "compute (10^12/s)", 0.001, 1e6));
    QUIRE_TRY(h.dollars_per_hour, row.real(4, "price (dollars an hour)", 0, 1e6));
    h.memory_bytes *= kGiB;
    h.read_per_second *= 1e9;
    h.operations_per_second *= 1e12;
    h.description = row.fields[5];
    if (std::ranges::find(all, h.name, &Hardware::name) != all.end()) {
      return fail(Errc::bad_file, "{}, line {}: '{}' is there already; expected another name", file, row.line, h.name);
    }
    all.push_back(std::move(h));
  }
  if (all.empty())
    return fail(Errc::bad_file, "{}: no hardware in it; expected a row such as 'h100 80 3350 989 2.50 NVIDIA H100'",
                file);
  return all;
}

const std::vector<Hardware>& builtin_hardware() {
  static const std::vector<Hardware> hardware = [] {
    auto parsed = parse_hardware(embedded_hardware(), "the table of hardware");
    QUIRE_ASSERT(parsed.ok(), "the embedded table of hardware is broken");
    return std::move(*parsed);
  }();
  return hardware;
}

Result<Hardware> find_hardware(const std::vector<Hardware>& known, std::string_view name) {
  std::vector<std::string> names;
  for (const Hardware& h : known) {
    if (h.name == name) return h;
    names.push_back(h.name);
  }
  return fail(Errc::invalid_argument, "no hardware '{}'; {} A table of your own is read with --hardware FILE", name,
              suggestion(name, names));
}

}  // namespace quire
