// Time that only goes forward, and how much of it has passed.
#pragma once

#include <chrono>

namespace quire {

using Clock = std::chrono::steady_clock;

inline double milliseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}
inline double milliseconds_since(Clock::time_point start) { return milliseconds(start, Clock::now()); }

}  // namespace quire
