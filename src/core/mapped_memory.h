// Memory straight from the system, in huge pages where it has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace quire {

inline constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;

std::uint64_t system_page();

class MappedMemory {
 public:
  MappedMemory() = default;
  // Zeroed. Empty where the system refuses. What can hold a huge page starts on the border of one.
  static MappedMemory map(std::uint64_t bytes);
  ~MappedMemory();
  MappedMemory(MappedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return data_; }
  std::uint64_t bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace quire
