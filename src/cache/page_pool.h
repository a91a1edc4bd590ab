// Where pages live. Memory is taken from the system in slabs, each cut into pages of one size
// class, up to a budget that is never exceeded:
//
//   class 0   [page|page|page]  [page|page|page]      a slab: up to 48 MiB, huge pages where
//   class 1   [ page  |  page ]                       the system has them
//
// Pages of a class may lie in bundles, interleaved (kv/bundle.h): a slab is then of whole ones, and a rest of the
// budget too small for one is left.
//
// A slab whose pages all came back returns to the system, and its bytes to the budget, so that
// another class can have them; the largest empty slab of a class is kept until somebody needs its bytes.
// For one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "kv/bundle.h"
#include "quire/result.h"

namespace quire {

struct PageShape {
  // NOLINTNEXTLINE(google-explicit-constructor): most pages are their size
  PageShape(std::uint64_t bytes_, PageBundle bundle_ = {}) : bytes(bytes_), bundle(bundle_) {}

  std::uint64_t bytes;  // rounded up to 64
  PageBundle bundle;    // a slab is made of whole ones
};

struct PoolOptions {
  std::uint64_t budget_bytes;     // for slabs and what describes them
  std::vector<PageShape> shapes;  // of each size class
  bool poison = false;            // fill pages with 0xFF (NaN in every float format) as they are handed out
};

struct PageWant {
  int size_class;
  std::uint64_t count;
};

struct PageUse {
  const std::byte* data;
  std::uint64_t bytes;
  std::uint32_t holders;  // 0: free
};

struct PoolCounters {
  struct SizeClass {
    std::uint64_t pages_in_use = 0;
    std::uint64_t pages_free = 0;  // in slabs already reserved
  };
  std::uint64_t reserved_bytes = 0;  // slabs and what describes them; at most the budget
  std::uint64_t used_bytes = 0;      // in pages in use
  std::vector<SizeClass> classes;
};

class PagePool;

namespace detail {

struct PageSlab;

struct Page {
  std::byte* data;
  PageSlab* slab;
  Page* next_free;
  std::uint32_t references;
};

// Fewest free pages first, so that slabs that are nearly empty become empty.
struct FullerSlab {
  bool operator()(const PageSlab* a, const PageSlab* b) const;
};

}  // namespace detail

// One page, shared by those who hold a PageRef to it; the last of them gives it back. None may
// outlive the pool.
class PageRef {
 public:
  PageRef() = default;
  PageRef(const PageRef& other) : page_(other.page_) {
    if (page_ != nullptr) ++page_->references;
  }
  PageRef(PageRef&& other) noexcept : page_(std::exchange(other.page_, nullptr)) {}
  PageRef& operator=(PageRef other) noexcept {
    std::swap(page_, other.page_);
    return *this;
  }
  ~PageRef() {
    if (page_ != nullptr && --page_->references == 0) release();
  }

  explicit operator bool() const { return page_ != nullptr; }
  friend bool operator==(const PageRef& a, const PageRef& b) { return a.page_ == b.page_; }

  std::byte* data() const { return page_->data; }
  std::uint32_t use_count() const { return page_ == nullptr ? 0 : page_->references; }
  int size_class() const;

  // A planted bug (core/planted.h): as if one holder did not exist.
  void miscount() { --page_->references; }

 private:
  friend class PagePool;
  explicit PageRef(detail::Page* page) : page_(page) { page_->references = 1; }
  void release();

  detail::Page* page_ = nullptr;
};

class PagePool {
 public:
  // Reserves nothing yet. The budget must hold a page of the largest class.
  static Result<std::unique_ptr<PagePool>> create(const PoolOptions& options);
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // Pages in the order of `wants`: all of them, or Errc::out_of_memory and no page is taken.
  Result<std::vector<PageRef>> allocate(std::span<const PageWant> wants);
  // Whether allocate would find room in the budget, now or, with `leaving`, once these holders have let go.
  bool can_allocate(std::span<const PageWant> wants) const { return plan(wants, room()).fits; }
  bool can_allocate(std::span<const PageWant> wants, std::span<const PageRef* const> leaving) const {
    return plan(wants, room_without(leaving)).fits;
  }

  // What allocate would take from the system for them; 0 too where it would refuse.
  std::uint64_t fresh_bytes(std::span<const PageWant> wants) const;

  // Gives back the empty slabs that were kept.
  void trim();

  std::uint64_t budget_bytes() const { return budget_; }
  const PageBundle& bundle(int size_class) const { return class_at(size_class).bundle; }
  std::uint64_t page_bytes(int size_class) const { return class_at(size_class).page_bytes; }
  // Free pages and what the budget has left, once these holders have let go.
  std::uint64_t free_bytes(std::span<const PageRef* const> leaving) const;
  PoolCounters counters() const;
  std::vector<PageUse> pages() const;  // of all slabs, in an order that stays

 private:
  friend class PageRef;

  struct SizeClass {
    std::uint64_t page_bytes = 0;
    PageBundle bundle;
    std::uint64_t slab_pages = 0;  // of a slab for which the budget has room
    std::uint64_t in_use = 0;
    std::uint64_t free = 0;  // counting those in the spare slab
    std::set<detail::PageSlab*, detail::FullerSlab> partial;
    detail::PageSlab* spare = nullptr;  // empty, kept
  };
  struct Room {
    struct Pages {
      std::uint64_t free;      // counting those in the spare slab
      std::uint64_t in_spare;  // 0: there is none
    };
    std::uint64_t bytes;         // of the budget, for new slabs
    std::vector<Pages> classes;  // [size classes]
  };
  struct NewSlab {
    int size_class;
    std::uint64_t pages;
  };
  struct Plan {
    bool fits = false;
    std::vector<NewSlab> slabs;
    std::vector<int> give_up;  // classes whose spare slab must go first
  };

  explicit PagePool(const PoolOptions& options);
  const SizeClass& class_at(int size_class) const;
  Room room() const;
  Room room_without(std::span<const PageRef* const> leaving) const;
  Plan plan(std::span<const PageWant> wants, const Room& room) const;
  std::uint64_t slab_cost(int size_class, std::uint64_t pages) const;
  void poison(const PageRef& page) const;
  detail::PageSlab* map_slab(const NewSlab& slab);
  void unmap_slab(detail::PageSlab* slab);
  detail::Page* take(SizeClass& size_class);
  void give_back(detail::Page* page);

  std::uint64_t budget_;
  bool poison_;
  std::uint64_t reserved_ = 0;
  std::uint64_t next_serial_ = 0;
  std::vector<SizeClass> classes_;
  std::map<std::uint64_t, const detail::PageSlab*> slabs_;  // by serial
};

}  // namespace quire
