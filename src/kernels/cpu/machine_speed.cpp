#include "kernels/machine_speed.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "core/mapped_memory.h"
#include "kernels/cpu/isa_kernels.h"
#include "kernels/ops.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

// The best of several rounds: whatever else the machine does only makes a round longer.
template <class Round>
double best_seconds(int rounds, Round&& round) {
  double best = 0;
  for (int i = 0; i < rounds; ++i) {
    const auto start = Clock::now();
    round();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = i == 0 ? seconds : std::min(best, seconds);
  }
  return best;
}

// Far more than caches hold.
constexpr std::uint64_t kReadBytes = std::uint64_t{512} << 20;
constexpr std::int64_t kReadPieces = 64;

double read_gbps(const IsaKernels& isa, ThreadPool& pool) {
  const MappedMemory memory = MappedMemory::map(kReadBytes);
  if (!memory) return 0;
  constexpr std::int64_t kPiece = static_cast<std::int64_t>(kReadBytes) / kReadPieces;
  std::vector<std::uint64_t> sums(kReadPieces);
  pool.for_each(kReadPieces, [&](std::int64_t i) { std::fill_n(memory.data() + i * kPiece, kPiece, std::byte{1}); });
  const double seconds = best_seconds(5, [&] {
    pool.for_each(kReadPieces, [&](std::int64_t i) {
      sums[static_cast<std::size_t>(i)] += isa.sum_bytes(memory.data() + i * kPiece, kPiece);
    });
  });
  return static_cast<double>(kReadBytes) / seconds * 1e-9;
}

double int8_gops(const IsaKernels& isa, ThreadPool& pool) {
  constexpr std::int64_t kPieces = 64, kRounds = 20000;
  std::vector<std::int64_t> operations(kPieces);
  const double seconds = best_seconds(5, [&] {
    pool.for_each(kPieces,
                  [&](std::int64_t i) { operations[static_cast<std::size_t>(i)] = isa.int8_products(kRounds); });
  });
  std::int64_t total = 0;
  for (const std::int64_t n : operations) total += n;
  return static_cast<double>(total) / seconds * 1e-9;
}

const IsaKernels& best_kernels() {
  switch (best_isa()) {
    case Isa::portable:
      return kPortableKernels;
    case Isa::avx2:
      return kAvx2Kernels;
    case Isa::avx512:
      return kAvx512Kernels;
  }
  __builtin_unreachable();
}

}  // namespace

MachineSpeed measure_machine(ThreadPool& pool) {
  const IsaKernels& isa = best_kernels();
  return {read_gbps(isa, pool), int8_gops(isa, pool)};
}

}  // namespace quire
