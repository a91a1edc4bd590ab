// What a cache holds and what it did, in one snapshot.
#pragma once

#include <cstdint>

namespace quire {

// Counted as things happen.
struct CacheCounters {
  std::uint64_t asked_tokens = 0;  // prompt tokens looked up
  std::uint64_t hit_tokens = 0;    // of those, found
  std::uint64_t evicted_tokens = 0;
  std::uint64_t evicted_pages = 0;
  std::uint64_t released_sequences = 0;  // parked ones, to make room
  std::uint64_t copied_pages = 0;
  std::uint64_t encoded_pages = 0;

  double hit_rate() const {
    return asked_tokens == 0 ? 0 : static_cast<double>(hit_tokens) / static_cast<double>(asked_tokens);
  }
};

struct CacheStats {
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
  double average_length = 0;

  // Pages that sequences hold, each counted once however many share it.
  std::int64_t open_pages = 0;
  std::int64_t sealed_pages = 0;
  std::int64_t shared_pages = 0;  // of both, held by more than one table or by the index
  std::int64_t free_pages = 0;
  std::uint64_t open_bytes = 0;
  std::uint64_t sealed_bytes = 0;
  std::uint64_t cached_bytes = 0;    // held by the prefix index alone
  std::uint64_t reserved_bytes = 0;  // mapped by the pool
  std::uint64_t budget_bytes = 0;

  double hit_rate = 0;    // of prompt tokens looked up
  double efficiency = 0;  // bytes that hold tokens / bytes reserved
  CacheCounters counters;

  std::uint64_t held_bytes() const { return open_bytes + sealed_bytes; }
};

}  // namespace quire
