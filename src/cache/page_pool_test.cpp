#include "cache/page_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>

namespace quire {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

std::unique_ptr<PagePool> make(const PoolOptions& options) {
  auto pool = PagePool::create(options);
  EXPECT_TRUE(pool.ok());
  return std::move(*pool);
}

std::vector<PageRef> take(PagePool& pool, std::vector<PageWant> wants) {
  auto pages = pool.allocate(wants);
  EXPECT_TRUE(pages.ok()) << pages.error().message;
  return std::move(*pages);
}

// As many single pages as the pool gives.
std::vector<PageRef> take_all(PagePool& pool, int size_class) {
  std::vector<PageRef> pages;
  for (const PageWant one{size_class, 1}; pool.can_allocate({&one, 1});) pages.push_back(take(pool, {one}).front());
  return pages;
}

std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

TEST(PagePool, BadOptionsAreRefused) {
  EXPECT_FALSE(PagePool::create({kMiB, {}}).ok());
  EXPECT_FALSE(PagePool::create({kMiB, {0}}).ok());
  EXPECT_FALSE(PagePool::create({kMiB, {~std::uint64_t{0}}}).ok());
  EXPECT_FALSE(PagePool::create({~std::uint64_t{0}, {64}}).ok());
  const auto too_small = PagePool::create({kMiB, {64, kMiB}});
  ASSERT_FALSE(too_small.ok()) << "what describes a slab counts too";
  EXPECT_EQ(too_small.error().code, Errc::invalid_argument);
}

TEST(PagePool, ReferencesAreCounted) {
  const auto pool = make({kMiB, {1000}});
  PageRef first = take(*pool, {{0, 1}}).front();
  EXPECT_EQ(first.use_count(), 1u);
  {
    const PageRef second = first;
    EXPECT_EQ(second, first);
    EXPECT_EQ(first.use_count(), 2u);
    const PageRef moved = std::move(first);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(moved.use_count(), 2u);
    first = moved;
    EXPECT_EQ(first.use_count(), 3u);
  }
  EXPECT_EQ(first.use_count(), 1u);
  EXPECT_EQ(pool->counters().classes[0].pages_in_use, 1u);
  first = {};
  EXPECT_EQ(pool->counters().classes[0].pages_in_use, 0u);
  EXPECT_EQ(pool->counters().used_bytes, 0u);
}

TEST(PagePool, PagesAreAlignedApartAndOfTheirClass) {
  const auto pool = make({64 * kMiB, {100, 3 * kMiB}});
  EXPECT_EQ(pool->page_bytes(0), 128u);
  const auto pages = take(*pool, {{0, 3}, {1, 2}});
  std::vector<std::pair<std::byte*, std::uint64_t>> spans;
  for (const PageRef& page : pages) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(page.data()) % 64, 0u);
    spans.emplace_back(page.data(), pool->page_bytes(page.size_class()));
    std::memset(page.data(), 1, spans.back().second);
  }
  EXPECT_EQ(pages[2].size_class(), 0);
  EXPECT_EQ(pages[3].size_class(), 1);
  std::sort(spans.begin(), spans.end());
  for (std::size_t i = 1; i < spans.size(); ++i) EXPECT_LE(spans[i - 1].first + spans[i - 1].second, spans[i].first);
}

TEST(PagePool, PoisonIsNaN) {
  const auto pool = make({kMiB, {4096}, true});
  for (int round = 0; round < 2; ++round) {
    const auto page = take(*pool, {{0, 1}}).front();
    EXPECT_TRUE(std::all_of(page.data(), page.data() + 4096, [](std::byte b) { return b == std::byte{0xFF}; }));
    std::memset(page.data(), 0, 4096);
  }
}

TEST(PagePool, ABudgetIsUsedWellAndNeverExceeded) {
  // A page of a small model in 16 bits, pages of odd sizes, budgets from a page and a bit on.
  for (const std::uint64_t page : {std::uint64_t{64}, std::uint64_t{737'280}, std::uint64_t{3'000'000}}) {
    for (const std::uint64_t budget : {page + 8192, 3 * kMiB, 10 * kMiB, 64 * kMiB}) {
      if (budget < page + 8192) continue;
      const auto pool = make({budget, {page}});
      const auto pages = take_all(*pool, 0);
      EXPECT_LE(pool->counters().reserved_bytes, budget);
      EXPECT_GE(pool->counters().reserved_bytes + page + 8192, budget) << page << " in " << budget;
      const PageWant one{0, 1};
      const auto refused = pool->allocate({&one, 1});
      ASSERT_FALSE(refused.ok());
      EXPECT_EQ(refused.error().code, Errc::out_of_memory);
      EXPECT_NE(refused.error().message.find(std::to_string(budget)), std::string::npos) << refused.error().message;
    }
  }
}

TEST(PagePool, SlabsAreOfWholeBundlesAndPagesComeInOrder) {
  constexpr std::uint64_t kPage = 64 * 1024;
  const PageBundle bundle{8, 4096};
  const auto pool = make({40 * kMiB, {{kPage, bundle}}, true});
  std::vector<PageRef> pages = take(*pool, {{0, 11}});
  const auto counters = pool->counters().classes[0];
  EXPECT_EQ((counters.pages_in_use + counters.pages_free) % 8, 0u);
  const auto expect_neighbours = [&] {
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const std::byte* start = pages[i / 8 * 8].data();
      EXPECT_EQ(pages[i].data() - start, bundle.page_offset(static_cast<std::int64_t>(i % 8))) << i;
    }
  };
  expect_neighbours();
  // Each writes all of its own page; none writes into another's.
  const auto for_each_piece = [&](const PageRef& page, auto&& piece) {
    bundle.for_each_piece(kPage, [&](std::int64_t at, std::int64_t, std::int64_t bytes) {
      piece(page.data() + at, static_cast<std::size_t>(bytes));
    });
  };
  for (std::size_t i = 0; i < pages.size(); ++i) {
    for_each_piece(pages[i], [&](std::byte* at, std::size_t bytes) {
      EXPECT_TRUE(std::all_of(at, at + bytes, [](std::byte b) { return b == std::byte{0xFF}; })) << "poison";
      std::memset(at, static_cast<int>(i), bytes);
    });
  }
  for (std::size_t i = 0; i < pages.size(); ++i) {
    for_each_piece(pages[i], [&](const std::byte* at, std::size_t bytes) {
      EXPECT_TRUE(std::all_of(at, at + bytes, [&](std::byte b) { return b == static_cast<std::byte>(i); })) << i;
    });
  }
  // In whatever order they come back.
  std::shuffle(pages.begin(), pages.end(), std::mt19937(5));
  pages.clear();
  pages = take(*pool, {{0, 16}});
  expect_neighbours();
}

TEST(PagePool, ARestTooSmallForABundleIsLeft) {
  constexpr std::uint64_t kPage = 64 * 1024;
  const auto pool = make({20 * kPage, {{kPage, PageBundle{8, 4096}}}});
  EXPECT_EQ(take_all(*pool, 0).size(), 16u);
  EXPECT_FALSE(PagePool::create({7 * kPage, {{kPage, PageBundle{8, 4096}}}}).ok()) << "no room for one bundle";
}

TEST(PagePool, AllOrNothing) {
  const auto pool = make({8 * kMiB, {kMiB, 2 * kMiB}});
  const auto held = take(*pool, {{0, 2}});
  const auto before = pool->counters();
  const std::vector<PageWant> too_much{{0, 4}, {1, 1}, {0, 1}};
  EXPECT_FALSE(pool->can_allocate(too_much));
  EXPECT_FALSE(pool->allocate(too_much).ok());
  EXPECT_EQ(pool->counters().reserved_bytes, before.reserved_bytes);
  EXPECT_EQ(pool->counters().used_bytes, before.used_bytes);
  const std::vector<PageWant> absurd{{0, ~std::uint64_t{0}}, {0, ~std::uint64_t{0}}};
  EXPECT_FALSE(pool->can_allocate(absurd));
  EXPECT_EQ(take(*pool, {{0, 3}, {1, 1}}).size(), 4u);
}

TEST(PagePool, FreshBytesAreThoseOfNewSlabs) {
  auto pool = *PagePool::create({16 << 20, {100 << 10}, false});
  const std::uint64_t slab = pool->fresh_bytes(std::vector<PageWant>{{0, 1}});
  EXPECT_GE(slab, 100u << 10);
  const auto pages = *pool->allocate(std::vector<PageWant>{{0, 1}});
  EXPECT_GE(pool->counters().reserved_bytes, slab);
  EXPECT_EQ(pool->fresh_bytes(std::vector<PageWant>{{0, 1}}), 0u);
  EXPECT_GE(pool->fresh_bytes(std::vector<PageWant>{{0, 100}}), (100u - slab / (100 << 10)) * (100 << 10));
  EXPECT_EQ(pool->fresh_bytes(std::vector<PageWant>{{0, 1000}}), 0u) << "it would be refused";
}

TEST(PagePool, AFreedSlabServesAnotherClass) {
  const auto pool = make({16 * kMiB, {kMiB / 4, kMiB}});
  auto small = take_all(*pool, 0);
  const PageWant large{1, 12};
  EXPECT_FALSE(pool->can_allocate({&large, 1}));
  small.clear();
  EXPECT_LE(pool->counters().reserved_bytes, kMiB + kMiB / 4) << "all but one slab went back";
  EXPECT_TRUE(pool->can_allocate({&large, 1}));
  const auto pages = take(*pool, {large});
  auto more = take_all(*pool, 1);
  EXPECT_GE(pages.size() + more.size(), 15u) << "the slab that was kept is given up when its bytes are needed";
  EXPECT_EQ(pool->counters().classes[0].pages_free, 0u);
}

TEST(PagePool, NearlyEmptySlabsAreLeftToEmpty) {
  const auto pool = make({32 * kMiB, {kMiB / 2}});  // four pages to a slab
  auto pages = take(*pool, {{0, 8}});
  const std::byte* const of_fuller_slab = pages[5].data();
  for (const std::size_t i : {0u, 1u, 2u, 5u}) pages[i] = {};
  EXPECT_EQ(take(*pool, {{0, 1}}).front().data(), of_fuller_slab);
  pages[3] = {};
  pool->trim();
  EXPECT_EQ(pool->counters().classes[0].pages_free, 1u) << "the first slab is gone";
}

TEST(PagePool, ReleasedMemoryReturnsToTheSystem) {
  const auto pool = make({96 * kMiB, {300'000}, true});
  const std::uint64_t before = resident_bytes();
  auto pages = take_all(*pool, 0);
  EXPECT_GT(resident_bytes(), before + 90 * kMiB);
  // Sanitizers keep a shadow of what is touched.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(resident_bytes(), before + 97 * kMiB);
#endif
  const std::uint64_t full = resident_bytes();
  pages.clear();
  EXPECT_LT(resident_bytes() + 85 * kMiB, full);
}

TEST(PagePool, APageMayNotOutliveIt) {
  auto pool = make({kMiB, {64}});
  const auto pages = take(*pool, {{0, 1}});
  EXPECT_DEATH(pool.reset(), "outlives");
}

// Random demands against a model that only counts; contents must survive whatever others do.
TEST(PagePool, AgreesWithANaiveModel) {
  std::mt19937 random(11);
  const auto pick = [&](std::uint64_t below) { return static_cast<std::uint64_t>(random()) % below; };
  const std::vector<PageShape> sizes{4096, 10'000, 70'000};
  const std::uint64_t budget = 2 * kMiB;
  const auto pool = make({budget, sizes});
  struct Held {
    PageRef page;
    std::byte mark;
  };
  std::vector<Held> held;
  std::vector<std::uint64_t> in_use(sizes.size());
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    if (pick(2) == 0) {
      std::vector<PageWant> wants;
      for (std::uint64_t n = pick(3) + 1; n > 0; --n) wants.push_back({static_cast<int>(pick(3)), pick(6)});
      const bool expected = pool->can_allocate(wants);
      auto pages = pool->allocate(wants);
      ASSERT_EQ(pages.ok(), expected);
      refused += pages.ok() ? 0 : 1;
      if (pages.ok()) {
        std::size_t next = 0;
        for (const PageWant& want : wants) {
          for (std::uint64_t i = 0; i < want.count; ++i, ++next) {
            const PageRef& page = (*pages)[next];
            ASSERT_EQ(page.size_class(), want.size_class);
            const auto mark = static_cast<std::byte>(pick(256));
            std::memset(page.data(), static_cast<int>(mark), sizes[static_cast<std::size_t>(want.size_class)].bytes);
            held.push_back({page, mark});
          }
          in_use[static_cast<std::size_t>(want.size_class)] += want.count;
        }
        ASSERT_EQ(next, pages->size());
      }
    } else {
      for (std::uint64_t n = pick(12); n > 0 && !held.empty(); --n) {
        const std::size_t i = pick(held.size());
        const auto size_class = static_cast<std::size_t>(held[i].page.size_class());
        ASSERT_EQ(held[i].page.data()[0], held[i].mark);
        ASSERT_EQ(held[i].page.data()[sizes[size_class].bytes - 1], held[i].mark);
        --in_use[size_class];
        std::swap(held[i], held.back());
        held.pop_back();
      }
    }
    const PoolCounters counters = pool->counters();
    std::uint64_t used = 0;
    for (std::size_t c = 0; c < sizes.size(); ++c) {
      ASSERT_EQ(counters.classes[c].pages_in_use, in_use[c]);
      used += in_use[c] * pool->page_bytes(static_cast<int>(c));
    }
    ASSERT_EQ(counters.used_bytes, used);
    ASSERT_LE(counters.reserved_bytes, budget);
    ASSERT_GE(counters.reserved_bytes, used);
  }
  EXPECT_GT(refused, 100) << "the budget was never tight";
  held.clear();
  pool->trim();
  EXPECT_EQ(pool->counters().reserved_bytes, 0u);
}

}  // namespace
}  // namespace quire
