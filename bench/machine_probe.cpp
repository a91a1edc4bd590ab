// A second look at what this machine can do, to hold against the one of `quire bench`: it shares no code with it and
// goes about it another way. Prints one JSON document.
//
//   machine_probe [THREADS]
//
// Reading: every thread has its own memory and reads it as four streams at once, for a given time. Products of 8-bit
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
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kBytesPerThread = std::size_t{384} << 20;
constexpr int kStreams = 4;
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

// One register of sums += products of unsigned and signed bytes, four to a sum.
#if defined(__AVX512VNNI__)
using Vector = __m512i;
Vector product(Vector sums, Vector a, Vector b) { return _mm512_dpbusd_epi32(sums, a, b); }
Vector all(int four_bytes) { return _mm512_set1_epi32(four_bytes); }
Vector load(const std::uint8_t* bytes) { return _mm512_load_si512(bytes); }
Vector both(Vector a, Vector b) { return _mm512_or_si512(a, b); }
const char* const kHow = "AVX-512 VNNI";
#elif defined(__AVX2__)
using Vector = __m256i;
Vector product(Vector sums, Vector a, Vector b) {
  return _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)));
}
Vector all(int four_bytes) { return _mm256_set1_epi32(four_bytes); }
Vector load(const std::uint8_t* bytes) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(bytes)); }
Vector both(Vector a, Vector b) { return _mm256_or_si256(a, b); }
const char* const kHow = "AVX2";
#else
#error "machine_probe knows AVX-512 VNNI and AVX2"
#endif

constexpr int kRows = 4, kColumns = 2, kDepth = 128;  // of four bytes each
constexpr int kProducts = 80000;

struct Factors {
  alignas(64) std::uint8_t columns[kDepth][kColumns][sizeof(Vector)];
  alignas(64) std::int32_t rows[kDepth][kRows];
};

double multiply(const Factors& f) {
  Vector kept = all(0);
  for (int i = 0; i < kProducts; ++i) {
    Vector sums[kRows][kColumns];
    for (auto& row : sums) {
      for (Vector& sum : row) sum = all(0);
    }
    for (int k = 0; k < kDepth; ++k) {
      Vector columns[kColumns];
      for (int column = 0; column < kColumns; ++column) {
        columns[column] = load(f.columns[k][column]);
        asm volatile("" : "+x"(columns[column]));  // or it is loaded again with every product, which takes longer
      }
      for (int row = 0; row < kRows; ++row) {
        const Vector a = all(f.rows[k][row]);
        for (int column = 0; column < kColumns; ++column) {
          sums[row][column] = product(sums[row][column], a, columns[column]);
        }
      }
    }
    for (auto& row : sums) {
      for (const Vector sum : row) kept = both(kept, sum);
    }
    asm volatile("" : "+x"(kept) : : "memory");
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
