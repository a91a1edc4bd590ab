#include "lab/resident.h"

#include <fstream>
#include <string>

namespace quire::lab {

double resident_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    double kilobytes = 0;
    if (word == "Rss:" && file >> kilobytes) return 1024 * kilobytes;
  }
  return 0;
}

}  // namespace quire::lab
