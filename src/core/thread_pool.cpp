#include "core/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "core/check.h"

namespace quire {
namespace {

// About 150 us on current machines: longer than what one thread still has to do when another is done with its share,
// and longer than it takes to wake a thread that sleeps; shorter than a scheduler tick that somebody else could use.
constexpr int kSpins = 4000;

constexpr std::int64_t kMostItems = 0xFFFF'FFFF;
constexpr std::uint64_t kItemBits = kMostItems;
constexpr std::uint64_t of_loop(std::uint32_t generation, std::int64_t next) {
  return std::uint64_t{generation} << 32 | static_cast<std::uint64_t>(next);
}

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

template <class T>
void wait_while_equal(const std::atomic<T>& value, T old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause_cpu();
  }
  value.wait(old, std::memory_order_acquire);
}

int cgroup_cpus() {
  // v2: "QUOTA PERIOD" or "max PERIOD"; v1: two files, quota -1 for none.
  std::string quota;
  double period = 0;
  if (std::ifstream v2("/sys/fs/cgroup/cpu.max"); v2 >> quota >> period) {
    if (quota == "max" || period <= 0) return 0;
    return static_cast<int>(std::max(1.0, std::strtod(quota.c_str(), nullptr) / period + 0.5));
  }
  double v1_quota = -1;
  std::ifstream quota_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream period_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (quota_file >> v1_quota && period_file >> period && v1_quota > 0 && period > 0) {
    return static_cast<int>(std::max(1.0, v1_quota / period + 0.5));
  }
  return 0;
}

// Those this thread may run on; none where the system does not say, as with more than it has room to tell.
std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace

int usable_cpus() {
  int cpus = std::max(1, static_cast<int>(allowed_cpus().size()));
  if (const int limit = cgroup_cpus(); limit > 0) cpus = std::min(cpus, limit);
  return cpus;
}

ThreadPool::ThreadPool(int threads, Cpus cpus) : shares_(static_cast<std::size_t>(std::max(threads, 1))) {
  QUIRE_ASSERT(threads >= 1, "a pool needs a thread");
  if (cpus == Cpus::one_each && threads > 1) cpus_ = allowed_cpus();
  if (cpus_.size() != shares_.size()) cpus_.clear();
  workers_.reserve(static_cast<std::size_t>(threads));
  try {
    for (std::size_t i = 1; i < shares_.size(); ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error&) {
    // A limit on processes or memory: go on with those there are.
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(Loop loop) {
  if (workers_.empty() || loop.count <= 1) {
    for (std::int64_t i = 0; i < loop.count; ++i) loop.call(loop.context, i);
    return;
  }
  QUIRE_ASSERT(working_.load(std::memory_order_relaxed) == 0, "for_each inside for_each");
  QUIRE_ASSERT(loop.count <= kMostItems, "more items than a share can count");
  loop_ = loop;
  working_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  const std::uint32_t generation = generation_.fetch_add(1, std::memory_order_release) + 1;
  generation_.notify_all();
  drain(0, generation);
  for (int left = working_.load(std::memory_order_acquire); left != 0;
       left = working_.load(std::memory_order_acquire)) {
    wait_while_equal(working_, left);
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::drain(std::size_t self, std::uint32_t generation) {
  const auto threads = static_cast<std::size_t>(size());
  for (std::size_t k = 0; k < threads; ++k) drain_share((self + k) % threads, k == 0, generation);
}

void ThreadPool::drain_share(std::size_t number, bool own, std::uint32_t generation) {
  const std::int64_t threads = size(), thread = static_cast<std::int64_t>(number);
  const std::int64_t begin = loop_.count * thread / threads, end = loop_.count * (thread + 1) / threads;
  std::atomic<std::uint64_t>& next = shares_[number].next;
  std::uint64_t seen = next.load(std::memory_order_relaxed);
  while (true) {
    const bool of_this_loop = seen >> 32 == generation;
    const std::int64_t item = of_this_loop ? static_cast<std::int64_t>(seen & kItemBits) : begin;
    // Owners mark even an empty share: marks are then never older than the loop before.
    if (item >= end && (of_this_loop || !own)) return;
    const std::int64_t after = item < end ? item + 1 : end;
    const std::uint64_t taken = of_loop(generation, after);
    if (!next.compare_exchange_weak(seen, taken, std::memory_order_relaxed)) continue;
    if (item >= end) return;
    seen = taken;
    try {
      loop_.call(loop_.context, item);
    } catch (...) {
      const std::scoped_lock lock(failure_mutex_);
      if (!failure_) failure_ = std::current_exception();
      for (Share& left : shares_) left.next.store(of_loop(generation, kMostItems), std::memory_order_relaxed);
    }
  }
}

void ThreadPool::settle(std::size_t self) const {
  if (cpus_.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpus_[self], &set);
  sched_setaffinity(0, sizeof(set), &set);  // where that is not allowed the system places it
}

void ThreadPool::work(std::size_t self) {
  settle(self);
  std::uint32_t seen = 0;
  while (true) {
    wait_while_equal(generation_, seen);
    const std::uint32_t now = generation_.load(std::memory_order_acquire);
    if (now == seen) continue;
    seen = now;
    if (stop_.load(std::memory_order_relaxed)) return;
    // What the caller wrote comes from its CPU's cache, one line after the other where each says where the next is.
    for (std::size_t line = 0; line < loop_.context_bytes; line += 64) {
      __builtin_prefetch(static_cast<const std::byte*>(loop_.context) + line);
    }
    drain(self, now);
    if (working_.fetch_sub(1, std::memory_order_acq_rel) == 1) working_.notify_one();
  }
}

}  // namespace quire
