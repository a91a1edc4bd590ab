// A fixed set of threads for data-parallel loops. Workers spin briefly between loops, because a
// decode step runs a few hundred of them, and then sleep.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace quire {

class ThreadPool {
 public:
  // one_each: where there are as many threads as CPUs, each keeps to its own. Else the system, seeing somebody else's
  // work on one CPU, at times puts two of them on another, and all wait for those.
  enum class Cpus { any, one_each };

  // The caller's thread is one of them. Where the system grants fewer, fewer it is.
  explicit ThreadPool(int threads, Cpus cpus = Cpus::any);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // For the thread that calls for_each, where it is nobody else's: with one_each it keeps to a CPU too.
  void settle_caller() const { settle(0); }

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(i) once for every i in [0, count) on any thread and returns when all are done.
  // Results must not depend on which thread took which i. Not reentrant. What a body throws is
  // thrown here once all threads are done; the rest of the loop is then left out.
  template <class Body>
  void for_each(std::int64_t count, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run({[](void* context, std::int64_t i) { (*static_cast<Plain*>(context))(i); },
         const_cast<void*>(static_cast<const void*>(&body)), count, sizeof(Plain)});
  }

 private:
  struct Loop {
    void (*call)(void*, std::int64_t);
    void* context;
    std::int64_t count;
    std::size_t context_bytes;
  };
  // Each thread has a share of the loop and a line of memory for it: a line that threads write in turns costs as much
  // as a small item. Who is done helps the others. The loop's number comes first, then the next item, so that nobody
  // has to prepare another's line: one that is of an earlier loop says that nothing was taken yet.
  struct alignas(64) Share {
    std::atomic<std::uint64_t> next{0};
  };
  void run(Loop loop);
  void drain(std::size_t self, std::uint32_t generation);
  void drain_share(std::size_t number, bool own, std::uint32_t generation);
  void work(std::size_t self);
  void settle(std::size_t self) const;

  std::vector<int> cpus_;      // one for each thread, or none
  std::vector<Share> shares_;  // [threads], the caller's first
  std::vector<std::thread> workers_;
  alignas(64) std::atomic<std::uint32_t> generation_{0};  // bumped to publish loop_, which lies on its line
  Loop loop_{};
  alignas(64) std::atomic<int> working_{0};
  std::atomic<bool> stop_{false};
  std::mutex failure_mutex_;
  std::exception_ptr failure_;  // of the loop at hand
};

// CPUs this process may use: affinity mask and cgroup quota, at least 1.
int usable_cpus();

}  // namespace quire
