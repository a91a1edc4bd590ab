// A second look at what this machine can do, to hold against the one of `quire bench`: it shares no code with it and
// goes about it another way. Prints one JSON document.
//
//   machine_probe [THREADS]
//
// Reading: every thread has its own memory and reads it as six streams at once, for a given time. Products of 8-bit
// integers: a small matrix product whose factors lie in the first-level cache. Compiled for the machine it runs on.
#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kBytesPerThread = std::size_t{384} << 20;
constexpr int kStreams = 6;
constexpr int kTurns = 8;

// All threads do a turn at the same time; the best of several is what the machine can do. In units a second.
double best_rate(int threads, const std::function<double(int thread)>& turn) {
  std::vector<double> done(static_cast<std::size_t>(threads));
  std::vector<double> rates;
  Clock::time_point begin;
  std::barrier start(threads, [&]() noexcept { begin = Clock::now(); });
  std::barrier finish(threads, [&]() noexcept {
    double sum = 0;
    for (const double units : done) sum += units;
    rates.push_back(sum / std::chrono::duration<double>(Clock::now() - begin).count());
  });
  rates.reserve(kTurns);
  std::vector<std::jthread> all;
  for (int thread = 0; thread < threads; ++thread) {
    all.emplace_back([&, thread] {
      for (int i = 0; i < kTurns; ++i) {
        start.arrive_and_wait();
        done[static_cast<std::size_t>(thread)] = turn(thread);
        finish.arrive_and_wait();
      }
    });
  }
  all.clear();
  return *std::max_element(rates.begin(), rates.end());
}

// What a compiler must not leave out.
void needed(std::uint64_t value) { asm volatile("" : : "r"(value)); }

double read_gbps(int threads) {
  std::vector<std::uint64_t*> memory(static_cast<std::size_t>(threads));
  for (auto& part : memory) {
    void* mapped = mmap(nullptr, kBytesPerThread, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
      std::fprintf(stderr, "machine_probe: no memory for %zu bytes a thread\n", kBytesPerThread);
      std::exit(1);
    }
    madvise(mapped, kBytesPerThread, MADV_HUGEPAGE);
    part = static_cast<std::uint64_t*>(mapped);
  }
  constexpr std::size_t kWords = kBytesPerThread / sizeof(std::uint64_t), kStream = kWords / kStreams;
  {
    std::vector<std::jthread> writers;  // whoever reads it later touches it first
    for (std::uint64_t* part : memory) writers.emplace_back([part] { std::fill_n(part, kWords, 0x5555); });
  }
  const double rate = best_rate(threads, [&](int thread) {
    const std::uint64_t* words = memory[static_cast<std::size_t>(thread)];
    std::uint64_t bits[kStreams] = {};
    constexpr std::size_t kLine = 8;
    for (std::size_t i = 0; i < kStream; i += kLine) {
      for (int stream = 0; stream < kStreams; ++stream) {
        const std::uint64_t* line = words + static_cast<std::size_t>(stream) * kStream + i;
        for (std::size_t word = 0; word < kLine; ++word) bits[stream] |= line[word];
      }
    }
    for (const std::uint64_t b : bits) needed(b);
    return static_cast<double>(kBytesPerThread);
  });
  for (std::uint64_t* part : memory) munmap(part, kBytesPerThread);
  return rate * 1e-9;
}

// One register of sums += products of unsigned and signed bytes, four to a sum. As an instruction of its own where
// there is one: compilers copy sums to and fro between two of them.
#if defined(__AVX512VNNI__)
using Vector = __m512i;
void add_product(Vector& sums, Vector a, Vector b) { asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(a), "v"(b)); }
Vector all(int four_bytes) { return _mm512_set1_epi32(four_bytes); }
Vector load(const std::uint8_t* bytes) { return _mm512_load_si512(bytes); }
Vector both(Vector a, Vector b) { return _mm512_or_si512(a, b); }
#define QUIRE_ANY_REGISTER "+v"
const char* const kHow = "AVX-512 VNNI";
#elif defined(__AVX2__)
using Vector = __m256i;
void add_product(Vector& sums, Vector a, Vector b) {
  sums = _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)));
}
Vector all(int four_bytes) { return _mm256_set1_epi32(four_bytes); }
Vector load(const std::uint8_t* bytes) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(bytes)); }
Vector both(Vector a, Vector b) { return _mm256_or_si256(a, b); }
#define QUIRE_ANY_REGISTER "+x"
const char* const kHow = "AVX2";
#else
#error "machine_probe knows AVX-512 VNNI and AVX2"
#endif

// As many sums as registers hold beside the columns: some machines need more than eight so that none waits for the one
// before, and fewer loads than products.
#if defined(__AVX512VNNI__)
constexpr int kRows = 6, kColumns = 2;
#else
constexpr int kRows = 4, kColumns = 2;
#endif
constexpr int kDepth = 128;  // of four bytes each
constexpr int kProducts = 640000 / (kRows * kColumns);

struct Factors {
  alignas(64) std::uint8_t columns[kDepth][kColumns][sizeof(Vector)];
  alignas(64) std::int32_t rows[kDepth][kRows];
};

// body(row, column) of all, with constants: compilers keep sums in registers only where every index is one.
template <class Body>
inline __attribute__((always_inline)) void each(Body&& body) {
  const auto row = [&]<int... kColumn>(auto r, std::integer_sequence<int, kColumn...>) __attribute__((always_inline)) {
    (body(r, kColumn), ...);
  };
  const auto rows = [&]<int... kRow>(std::integer_sequence<int, kRow...>) __attribute__((always_inline)) {
    (row(kRow, std::make_integer_sequence<int, kColumns>()), ...);
  };
  rows(std::make_integer_sequence<int, kRows>());
}

double multiply(const Factors& f) {
  Vector kept = all(0);
  for (int i = 0; i < kProducts; ++i) {
    Vector sums[kRows][kColumns];
    each([&](int row, int column) __attribute__((always_inline)) { sums[row][column] = all(0); });
    for (int k = 0; k < kDepth; ++k) {
      Vector columns[kColumns];
#pragma GCC unroll 8
      for (int column = 0; column < kColumns; ++column) {
        columns[column] = load(f.columns[k][column]);
        // Or it is loaded again with every product, which takes longer.
        asm volatile("" : QUIRE_ANY_REGISTER(columns[column]));
      }
      each([&](int row, int column) __attribute__((always_inline)) {
        add_product(sums[row][column], all(f.rows[k][row]), columns[column]);
      });
    }
    each([&](int row, int column) __attribute__((always_inline)) { kept = both(kept, sums[row][column]); });
    asm volatile("" : QUIRE_ANY_REGISTER(kept) : : "memory");
  }
  constexpr double kOperations = 2.0 * kRows * kColumns * kDepth * sizeof(Vector);
  return kOperations * kProducts;
}

double int8_gops(int threads) {
  std::vector<Factors> factors(static_cast<std::size_t>(threads));
  for (Factors& f : factors) {
    std::fill_n(&f.columns[0][0][0], sizeof f.columns, std::uint8_t{3});
    std::fill_n(&f.rows[0][0], kDepth * kRows, 0x03020103);
  }
  return best_rate(threads, [&](int thread) { return multiply(factors[static_cast<std::size_t>(thread)]); }) * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : static_cast<int>(std::thread::hardware_concurrency());
  if (threads < 1 || threads > 1024) {
    std::fprintf(stderr, "usage: machine_probe [THREADS]\n");
    return 2;
  }
  const double read = read_gbps(threads), products = int8_gops(threads);
  std::printf("{\"threads\": %d, \"how\": \"%s\", \"read_gbps\": %.3f, \"int8_gops\": %.1f}\n", threads, kHow, read,
              products);
  return 0;
}
