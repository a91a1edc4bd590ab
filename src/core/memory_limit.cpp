#include "core/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

namespace quire {
namespace fs = std::filesystem;

namespace {

// "max", which is no number, means no limit.
std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::uint64_t number = 0;
  if (std::ifstream in(file); in >> number) return number;
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> cgroup_memory(const std::string& membership, const fs::path& root) {
  std::optional<std::uint64_t> least;
  const auto consider = [&](const fs::path& file) {
    if (const auto limit = number_in(file)) least = std::min(least.value_or(*limit), *limit);
  };
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {  // "4:memory:/some/group"; of version 2: "0::/some/group"
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find(",memory,") == std::string::npos) continue;
    const fs::path mount = unified ? root : root / "memory";
    const char* const file = unified ? "memory.max" : "memory.limit_in_bytes";
    fs::path group = fs::path(line.substr(second + 1)).relative_path();
    while (!group.empty()) {
      consider(mount / group / file);
      group = group.parent_path();
    }
    consider(mount / file);
  }
  return least;
}

std::uint64_t usable_memory() {
  const auto machine =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::ifstream in("/proc/self/cgroup");
  const std::string membership(std::istreambuf_iterator<char>(in), {});
  return std::min(machine, cgroup_memory(membership, "/sys/fs/cgroup").value_or(machine));
}

}  // namespace quire
