#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace quire {

// Memory that grows to the largest request and stays: no allocation per token once warm.
class Scratch {
 public:
  template <class T>
  T* get(std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (bytes + kAlignment > storage_.size()) storage_.resize(bytes + bytes / 4 + kAlignment);
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    return reinterpret_cast<T*>(storage_.data() + (kAlignment - address % kAlignment));
  }

 private:
  static constexpr std::size_t kAlignment = 64;  // vectors do not straddle cache lines
  std::vector<std::byte> storage_;
};

}  // namespace quire
