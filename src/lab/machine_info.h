// The machine a measurement was made on, as people name it.
#pragma once

#include <cstdint>
#include <string>

namespace quire {

std::string cpu_name();                    // "unknown" where the system does not say
std::string cpu_description(int threads);  // "AMD EPYC, 2 threads, avx2, 7.8 GiB"
std::uint64_t machine_memory_bytes();

}  // namespace quire
