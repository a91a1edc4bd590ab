#include "lab/machine_info.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

#include "core/cpu_features.h"

namespace quire {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (const auto colon = line.find(": "); line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

std::uint64_t machine_memory_bytes() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::string cpu_description(int threads) {
  return fmt::format("{}, {} thread{}, {}, {:.1f} GiB of memory", cpu_name(), threads, threads == 1 ? "" : "s",
                     name(best_isa()), static_cast<double>(machine_memory_bytes()) / (1u << 30));
}

}  // namespace quire
