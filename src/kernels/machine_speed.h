// What the machine can do at best, measured: what kernels are compared with.
#pragma once

#include "core/thread_pool.h"

namespace quire {

struct MachineSpeed {
  double read_gbps = 0;  // bytes read from memory, in 10^9 a second, by all threads together
  double int8_gops = 0;  // additions and multiplications of 8-bit products summed to 32 bits, in 10^9 a second
};

// Takes about a second.
MachineSpeed measure_machine(ThreadPool& pool);

}  // namespace quire
