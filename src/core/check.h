// QUIRE_ASSERT: for bugs in this program, never for input. Always on: a wrong cache is worse
// than a stopped one.
#pragma once

namespace quire {

[[noreturn]] void assertion_failed(const char* condition, const char* message, const char* file, int line);

}  // namespace quire

#define QUIRE_ASSERT(condition, message) \
  ((condition) ? static_cast<void>(0) : ::quire::assertion_failed(#condition, message, __FILE__, __LINE__))
