#include "core/check.h"

#include <cstdio>
#include <cstdlib>

namespace quire {

void assertion_failed(const char* condition, const char* message, const char* file, int line) {
  std::fprintf(stderr, "quire: bug: %s (%s) at %s:%d\n", message, condition, file, line);
  std::abort();
}

}  // namespace quire
