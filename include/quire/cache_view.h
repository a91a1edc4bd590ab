// What a cache holds, page by page and prefix by prefix: for people who look.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quire {

struct CacheView {
  enum class State {
    free,
    open,    // tokens are still written into it
    sealed,  // full, and one sequence's
    shared,  // held by several sequences
    cached,  // held by nobody, found again by its tokens
  };
  struct Page {
    State state = State::free;
    std::int64_t tokens = 0;
    std::uint64_t bytes = 0;
    std::vector<std::uint64_t> sequences;  // that hold it
    bool named = false;                    // whoever begins with the same tokens finds it
  };
  struct Sequence {
    std::uint64_t id = 0;
    std::int64_t tokens = 0;
    std::uint64_t bytes = 0;         // of its pages, shared or not
    std::uint64_t shared_bytes = 0;  // of those, pages that others hold too
  };
  // Cached tokens that follow one another without a fork.
  struct Prefix {
    std::int64_t id = 0, parent = -1;
    std::string tenant;  // equal for what may be shared; tells nothing else
    std::int64_t tokens = 0;
    std::uint64_t uses = 0;  // by requests that began so
    double idle_s = 0;       // since the last of them
    bool in_use = false;     // a sequence goes on from it
  };

  std::vector<Page> pages;  // as they lie in memory
  std::vector<Sequence> sequences;
  std::vector<Prefix> prefixes;  // parents first
};

}  // namespace quire
