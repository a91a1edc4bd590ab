#include "core/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <stdexcept>

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

TEST(ThreadPool, UsableCpus) {
  EXPECT_GE(usable_cpus(), 1);
  EXPECT_LE(usable_cpus(), static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace quire
