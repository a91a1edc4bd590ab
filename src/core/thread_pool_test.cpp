#include "core/thread_pool.h"

#include <gtest/gtest.h>

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>

namespace quire {
namespace {

TEST(ThreadPool, EveryIndexOnce) {
  for (int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (std::int64_t count : {0, 1, 2, 3, 1000}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
      pool.for_each(count, [&](std::int64_t i) { hits[static_cast<size_t>(i)]++; });
      for (const auto& h : hits) ASSERT_EQ(h.load(), 1);
    }
  }
}

TEST(ThreadPool, ManyLoopsInARow) {
  ThreadPool pool(3);
  std::vector<std::int64_t> sums(8);
  for (int round = 0; round < 5000; ++round) {
    pool.for_each(8, [&](std::int64_t i) { sums[static_cast<size_t>(i)] += i; });
  }
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(sums[i], static_cast<std::int64_t>(i) * 5000);
}

TEST(ThreadPool, WorkersWakeAfterSleeping) {
  ThreadPool pool(2);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // far longer than the spin
    std::atomic<int> sum{0};
    pool.for_each(100, [&](std::int64_t) { sum++; });
    EXPECT_EQ(sum.load(), 100);
  }
}

TEST(ThreadPool, WhatABodyThrowsReachesTheCaller) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (const std::int64_t bad : {0, 57, 99}) {
      EXPECT_THROW(pool.for_each(100,
                                 [&](std::int64_t i) {
                                   if (i == bad) throw std::runtime_error("bad");
                                 }),
                   std::runtime_error);
    }
    std::atomic<int> sum{0};
    pool.for_each(100, [&](std::int64_t) { sum++; });
    EXPECT_EQ(sum.load(), 100) << "the pool goes on";
  }
}

int cpus_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

// Whoever takes part says how many CPUs it may use; the caller is not asked.
int most_cpus_of_workers(ThreadPool& pool) {
  const auto caller = std::this_thread::get_id();
  std::atomic<int> most{0}, seen{0};
  while (seen == 0) {
    pool.for_each(1000, [&](std::int64_t) {
      if (std::this_thread::get_id() == caller) return std::this_thread::yield();
      most = std::max(most.load(), cpus_of_this_thread());
      ++seen;
    });
  }
  return most;
}

TEST(ThreadPool, EachKeepsToACpuWhereAskedAndThereIsOneForEach) {
  const int cpus = cpus_of_this_thread();
  if (cpus < 2) GTEST_SKIP() << "one CPU alone";
  ThreadPool anywhere(cpus), one_each(cpus, ThreadPool::Cpus::one_each), too_many(cpus + 1, ThreadPool::Cpus::one_each);
  EXPECT_EQ(most_cpus_of_workers(anywhere), cpus);
  EXPECT_EQ(most_cpus_of_workers(too_many), cpus);
  EXPECT_EQ(most_cpus_of_workers(one_each), 1);
  EXPECT_EQ(cpus_of_this_thread(), cpus) << "the caller's thread was not to be touched";
  std::thread([&] {
    one_each.settle_caller();
    EXPECT_EQ(cpus_of_this_thread(), 1);
  }).join();
}

TEST(ThreadPool, UsableCpus) {
  EXPECT_GE(usable_cpus(), 1);
  EXPECT_LE(usable_cpus(), static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace quire
