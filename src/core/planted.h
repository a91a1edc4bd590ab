// Bugs to be switched on, one at a time, to see that the tests catch them. In every build but that
// of tests/planted_bugs_test.cpp this is the constant false. For .cpp files only: that program compiles
// those that ask once more and takes the rest from the library.
#pragma once

#ifdef QUIRE_PLANTED_BUGS
#include <cstdlib>
#endif

namespace quire {

enum class Bug {
  none,
  fork_not_counted,     // a fork holds pages that do not know of it
  copy_one_row_short,   // copy-on-write leaves the last token behind
  parent_leaves_first,  // a prefix leaves the index before what follows it
  salt_not_in_name,     // tenants find each other's pages
  policy_not_in_name,   // pages are shared that a policy has changed
  window_frees_shared,  // a page that leaves one window is freed for all
  written_one_off,      // a token is written into its neighbour's slot
  one_slot_too_many,    // attention looks at the token after the last
  layers_mixed,         // all layers use the place of the first
  rope_by_row,          // positions count from the start of the chunk
};

#ifdef QUIRE_PLANTED_BUGS
inline bool planted(Bug bug) {
  static const int chosen = [] {
    const char* const number = std::getenv("QUIRE_PLANTED_BUG");
    return number == nullptr ? 0 : std::atoi(number);
  }();
  return chosen == static_cast<int>(bug);
}
#else
constexpr bool planted(Bug) { return false; }
#endif

}  // namespace quire
