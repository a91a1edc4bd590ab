// Machines that models run on, by what their data sheets say.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "quire/result.h"

namespace quire {

struct Hardware {
  std::string name;
  double memory_bytes = 0;
  double read_per_second = 0;        // bytes
  double operations_per_second = 0;  // 16-bit floating point, dense
  double dollars_per_hour = 0;
  std::string description;
};

const std::vector<Hardware>& builtin_hardware();
Result<std::vector<Hardware>> parse_hardware(std::string_view text, std::string_view file);
Result<Hardware> find_hardware(const std::vector<Hardware>& known, std::string_view name);

}  // namespace quire
