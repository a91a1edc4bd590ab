#include "cache/page_pool.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "core/check.h"
#include "core/fail.h"
#include "core/mapped_memory.h"

namespace quire {
namespace detail {

struct PageSlab {
  PagePool* pool;
  int size_class;
  std::uint64_t serial;  // a stable order for slabs that are equally full
  MappedMemory memory;
  std::uint64_t free;
  Page* first_free;
  std::vector<Page> pages;
};

bool FullerSlab::operator()(const PageSlab* a, const PageSlab* b) const {
  return a->free != b->free ? a->free < b->free : a->serial < b->serial;
}

}  // namespace detail

using detail::Page;
using detail::PageSlab;

namespace {

constexpr std::uint64_t kCacheLine = 64;

// Pages of a sequence should follow one another: slabs of little more than a huge page lie 4 MiB apart, and reading a
// layer of all pages then takes a fifth to a third longer.
constexpr std::uint64_t kSlabBytes = 24 * kHugePage;
// A small budget is cut into about this many slabs, so that a slab that is barely used, or a
// rest too small for one, does not cost much of it.
constexpr std::uint64_t kSlabsInSmallBudget = 16;

// Sizes beyond this are refused at creation; what is computed from smaller ones cannot overflow.
constexpr std::uint64_t kLargestSize = std::uint64_t{1} << 56;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

std::uint64_t bookkeeping(std::uint64_t pages) { return sizeof(PageSlab) + pages * sizeof(Page); }

// Of a slab, what the system may round it up to included. A slab costs a fixed amount and each of its pages another:
// so the fewest slabs are the cheapest, and pages that were given back can always be had again. With the rounding as it
// falls, two slabs of 2 pages may cost less than one of 3 and one of 1.
std::uint64_t cost(std::uint64_t page_bytes, std::uint64_t pages) {
  const std::uint64_t rounding = page_bytes % system_page() == 0 ? 0 : system_page();
  return page_bytes * pages + rounding + bookkeeping(pages);
}

std::uint64_t pages_of(const PageBundle& bundle) { return static_cast<std::uint64_t>(bundle.pages); }
std::uint64_t whole_bundles(const PageBundle& bundle, std::uint64_t pages) {
  return pages / pages_of(bundle) * pages_of(bundle);
}

// Whoever takes pages of an empty slab gets neighbours, one after the other.
void free_in_order(PageSlab& slab) {
  slab.first_free = nullptr;
  for (auto page = slab.pages.rbegin(); page != slab.pages.rend(); ++page) {
    page->next_free = std::exchange(slab.first_free, &*page);
  }
}

}  // namespace

int PageRef::size_class() const { return page_->slab->size_class; }

void PageRef::release() { page_->slab->pool->give_back(page_); }

Result<std::unique_ptr<PagePool>> PagePool::create(const PoolOptions& options) {
  if (options.shapes.empty()) return fail(Errc::invalid_argument, "[page pool] no size class; expected at least 1");
  for (const auto& [bytes, bundle] : options.shapes) {
    if (bytes < 1 || bytes > kLargestSize || options.budget_bytes > kLargestSize) {
      return fail(Errc::invalid_argument, "[page pool] pages of {} bytes in a budget of {}; expected 1 to 2^56", bytes,
                  options.budget_bytes);
    }
    if (const std::uint64_t least = cost(round_up(bytes, kCacheLine), pages_of(bundle)); options.budget_bytes < least) {
      return fail(Errc::invalid_argument,
                  "[page pool] a budget of {} bytes holds no page of {}; raise it to {} or more", options.budget_bytes,
                  bytes, least);
    }
  }
  return std::unique_ptr<PagePool>(new PagePool(options));
}

PagePool::PagePool(const PoolOptions& options) : budget_(options.budget_bytes), poison_(options.poison) {
  const std::uint64_t aim = std::min(budget_ / kSlabsInSmallBudget, kSlabBytes);
  for (const auto& [bytes, bundle] : options.shapes) {
    SizeClass& added = classes_.emplace_back();
    added.page_bytes = round_up(bytes, kCacheLine);
    added.bundle = bundle;
    added.slab_pages = std::max(whole_bundles(bundle, aim / added.page_bytes), pages_of(bundle));
  }
}

PagePool::~PagePool() {
  trim();
  QUIRE_ASSERT(reserved_ == 0, "a page outlives its pool");
}

const PagePool::SizeClass& PagePool::class_at(int size_class) const {
  QUIRE_ASSERT(size_class >= 0 && size_class < std::ssize(classes_), "no such size class");
  return classes_[static_cast<std::size_t>(size_class)];
}

std::uint64_t PagePool::slab_cost(int size_class, std::uint64_t pages) const {
  return cost(class_at(size_class).page_bytes, pages);
}

PagePool::Room PagePool::room() const {
  Room room{budget_ - reserved_, {}};
  for (const SizeClass& size_class : classes_) {
    room.classes.push_back({size_class.free, size_class.spare == nullptr ? 0 : size_class.spare->free});
  }
  return room;
}

// The same, in whatever order they let go: of slabs that become empty the largest is kept.
PagePool::Room PagePool::room_without(std::span<const PageRef* const> leaving) const {
  std::vector<const Page*> pages;
  for (const PageRef* holder : leaving) pages.push_back(holder->page_);
  std::ranges::sort(pages);
  std::map<const PageSlab*, std::uint64_t> freed;
  for (auto from = pages.begin(); from != pages.end();) {
    const auto to = std::find_if(from, pages.end(), [&](const Page* page) { return page != *from; });
    if (to - from == (*from)->references) ++freed[(*from)->slab];
    from = to;
  }
  Room result = room();
  for (const auto& [slab, count] : freed) {
    Room::Pages& there = result.classes[static_cast<std::size_t>(slab->size_class)];
    there.free += count;
    if (slab->free + count < slab->pages.size()) continue;
    const std::uint64_t unmapped = std::min<std::uint64_t>(slab->pages.size(), there.in_spare);
    there.in_spare = std::max<std::uint64_t>(slab->pages.size(), there.in_spare);
    there.free -= unmapped;
    if (unmapped > 0) result.bytes += slab_cost(slab->size_class, unmapped);
  }
  return result;
}

std::uint64_t PagePool::free_bytes(std::span<const PageRef* const> leaving) const {
  const Room room = room_without(leaving);
  std::uint64_t bytes = room.bytes;
  for (std::size_t c = 0; c < classes_.size(); ++c) bytes += room.classes[c].free * classes_[c].page_bytes;
  return bytes;
}

// First the fewest new pages that do, and what must be given up for them; then, with what the
// budget has left, the last slab of each class grows towards its full size.
PagePool::Plan PagePool::plan(std::span<const PageWant> wants, const Room& room) const {
  Plan result;
  std::vector<std::uint64_t> wanted_pages(classes_.size());
  for (const PageWant& want : wants) {
    if (want.count > budget_ / class_at(want.size_class).page_bytes) return result;
    wanted_pages[static_cast<std::size_t>(want.size_class)] += want.count;
  }
  std::uint64_t left = room.bytes, needed = 0;
  std::vector<int> unneeded_spares;
  for (int c = 0; c < std::ssize(classes_); ++c) {
    const auto [free, in_spare] = room.classes[static_cast<std::size_t>(c)];
    const std::uint64_t wanted = wanted_pages[static_cast<std::size_t>(c)];
    if (in_spare > 0 && wanted <= free - in_spare) unneeded_spares.push_back(c);
    for (std::uint64_t missing = wanted - std::min(wanted, free); missing > 0;) {
      const std::uint64_t pages = std::min(round_up(missing, pages_of(bundle(c))), class_at(c).slab_pages);
      needed += slab_cost(c, pages);
      if (needed > budget_) return result;
      result.slabs.push_back({c, pages});
      missing -= std::min(missing, pages);
    }
  }
  for (const int c : unneeded_spares) {
    if (needed <= left) break;
    left += slab_cost(c, room.classes[static_cast<std::size_t>(c)].in_spare);
    result.give_up.push_back(c);
  }
  if (needed > left) return result;
  left -= needed;
  for (NewSlab& slab : result.slabs) {
    const std::uint64_t least = slab_cost(slab.size_class, slab.pages);
    const std::uint64_t per_page = class_at(slab.size_class).page_bytes + sizeof(Page);
    const std::uint64_t more = whole_bundles(bundle(slab.size_class), left / per_page);
    slab.pages = std::min(class_at(slab.size_class).slab_pages, slab.pages + more);
    left -= slab_cost(slab.size_class, slab.pages) - least;
  }
  result.fits = true;
  return result;
}

std::uint64_t PagePool::fresh_bytes(std::span<const PageWant> wants) const {
  std::uint64_t bytes = 0;
  const Plan todo = plan(wants, room());
  if (!todo.fits) return 0;
  for (const NewSlab& slab : todo.slabs) bytes += slab.pages * class_at(slab.size_class).page_bytes;
  return bytes;
}

Result<std::vector<PageRef>> PagePool::allocate(std::span<const PageWant> wants) {
  const Plan todo = plan(wants, room());
  const auto refuse = [&](const char* what) {
    std::uint64_t pages = 0, bytes = 0;
    for (const PageWant& want : wants) {
      pages += want.count;
      bytes += want.count * page_bytes(want.size_class);
    }
    return fail(Errc::out_of_memory,
                "[page pool] {} pages ({} bytes) {}: {} bytes are free of a budget of {}; raise --cache-bytes or run "
                "fewer requests at once",
                pages, bytes, what, free_bytes({}), budget_);
  };
  if (!todo.fits) return refuse("do not fit");
  for (const int c : todo.give_up) unmap_slab(std::exchange(classes_[static_cast<std::size_t>(c)].spare, nullptr));
  std::vector<PageSlab*> mapped;
  for (const NewSlab& slab : todo.slabs) {
    if (PageSlab* const added = map_slab(slab); added != nullptr) {
      mapped.push_back(added);
      continue;
    }
    for (PageSlab* const added_before : mapped) {
      classes_[static_cast<std::size_t>(added_before->size_class)].partial.erase(added_before);
      unmap_slab(added_before);
    }
    return refuse("are refused by the system");
  }
  std::vector<PageRef> pages;
  for (const PageWant& want : wants) {
    SizeClass& size_class = classes_[static_cast<std::size_t>(want.size_class)];
    for (std::uint64_t i = 0; i < want.count; ++i) {
      pages.push_back(PageRef(take(size_class)));
      if (poison_) poison(pages.back());
    }
  }
  return pages;
}

void PagePool::poison(const PageRef& page) const {
  const SizeClass& size_class = class_at(page.size_class());
  size_class.bundle.for_each_piece(static_cast<std::int64_t>(size_class.page_bytes),
                                   [&](std::int64_t at, std::int64_t, std::int64_t bytes) {
                                     std::memset(page.data() + at, 0xFF, static_cast<std::size_t>(bytes));
                                   });
}

PageSlab* PagePool::map_slab(const NewSlab& wanted) {
  SizeClass& size_class = classes_[static_cast<std::size_t>(wanted.size_class)];
  const std::uint64_t bytes = round_up(wanted.pages * size_class.page_bytes, system_page());
  MappedMemory memory = MappedMemory::map(bytes);
  if (!memory) return nullptr;
  std::byte* const data = memory.data();
  auto* const slab =
      new PageSlab{this, wanted.size_class, next_serial_++, std::move(memory), wanted.pages, nullptr, {}};
  const std::uint64_t in_bundle = pages_of(size_class.bundle);
  for (std::uint64_t i = 0; i < wanted.pages; ++i) {
    std::byte* const bundle = data + i / in_bundle * in_bundle * size_class.page_bytes;
    slab->pages.push_back(
        {bundle + size_class.bundle.page_offset(static_cast<std::int64_t>(i % in_bundle)), slab, nullptr, 0});
  }
  free_in_order(*slab);
  reserved_ += slab_cost(wanted.size_class, wanted.pages);
  size_class.free += wanted.pages;
  size_class.partial.insert(slab);
  slabs_.emplace(slab->serial, slab);
  return slab;
}

void PagePool::unmap_slab(PageSlab* slab) {
  const std::uint64_t pages = slab->pages.size();
  QUIRE_ASSERT(slab->free == pages, "a slab leaves with a page in use");
  classes_[static_cast<std::size_t>(slab->size_class)].free -= pages;
  reserved_ -= slab_cost(slab->size_class, pages);
  slabs_.erase(slab->serial);
  delete slab;
}

Page* PagePool::take(SizeClass& size_class) {
  if (size_class.partial.empty()) size_class.partial.insert(std::exchange(size_class.spare, nullptr));
  PageSlab* const slab = *size_class.partial.begin();
  size_class.partial.erase(size_class.partial.begin());
  Page* const page = slab->first_free;
  slab->first_free = page->next_free;
  if (--slab->free > 0) size_class.partial.insert(slab);
  --size_class.free;
  ++size_class.in_use;
  return page;
}

void PagePool::give_back(Page* page) {
  PageSlab* const slab = page->slab;
  SizeClass& size_class = classes_[static_cast<std::size_t>(slab->size_class)];
  if (slab->free > 0) size_class.partial.erase(slab);
  page->next_free = slab->first_free;
  slab->first_free = page;
  ++slab->free;
  ++size_class.free;
  --size_class.in_use;
  if (slab->free < slab->pages.size()) {
    size_class.partial.insert(slab);
    return;
  }
  free_in_order(*slab);
  PageSlab* spare = size_class.spare;
  if (spare == nullptr || spare->pages.size() < slab->pages.size())
    spare = std::exchange(size_class.spare, slab);
  else
    spare = slab;
  if (spare != nullptr) unmap_slab(spare);
}

void PagePool::trim() {
  for (SizeClass& size_class : classes_) {
    if (size_class.spare != nullptr) unmap_slab(std::exchange(size_class.spare, nullptr));
  }
}

std::vector<PageUse> PagePool::pages() const {
  std::vector<PageUse> all;
  for (const auto& [serial, slab] : slabs_) {
    for (const Page& page : slab->pages) all.push_back({page.data, page_bytes(slab->size_class), page.references});
  }
  return all;
}

PoolCounters PagePool::counters() const {
  PoolCounters result;
  result.reserved_bytes = reserved_;
  for (const SizeClass& size_class : classes_) {
    result.used_bytes += size_class.in_use * size_class.page_bytes;
    result.classes.push_back({size_class.in_use, size_class.free});
  }
  return result;
}

}  // namespace quire
