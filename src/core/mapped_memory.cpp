#include "core/mapped_memory.h"

#include <sys/mman.h>
#include <unistd.h>

namespace quire {

std::uint64_t system_page() {
  static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

MappedMemory MappedMemory::map(std::uint64_t bytes) {
  const std::uint64_t alignment = bytes >= kHugePage ? kHugePage : system_page();
  const std::uint64_t asked = bytes + alignment - system_page();
  void* const mapped = ::mmap(nullptr, asked, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  MappedMemory memory;
  if (mapped == MAP_FAILED) return memory;
  auto* const begin = static_cast<std::byte*>(mapped);
  const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(begin));
  const std::uint64_t head = (alignment - address % alignment) % alignment;
  memory.data_ = begin + head;
  memory.bytes_ = bytes;
  if (head > 0) ::munmap(begin, head);
  if (const std::uint64_t tail = asked - head - bytes; tail > 0) ::munmap(memory.data_ + bytes, tail);
#ifdef MADV_HUGEPAGE
  // Advice: where it is refused, small pages do.
  if (bytes >= kHugePage) ::madvise(memory.data_, bytes, MADV_HUGEPAGE);
#endif
  return memory;
}

MappedMemory::~MappedMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace quire
