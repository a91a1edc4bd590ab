// Arithmetic on sizes that come from outside. A CheckedSize that overflowed once stays
// overflowed, so a whole formula is written plainly and asked once at its end.
#pragma once

#include <cstdint>
#include <optional>

namespace quire {

class CheckedSize {
 public:
  constexpr CheckedSize(std::uint64_t value) : value_(value) {}

  friend constexpr CheckedSize operator+(CheckedSize a, CheckedSize b) {
    CheckedSize r{0};
    r.overflow_ = __builtin_add_overflow(a.value_, b.value_, &r.value_) || a.overflow_ || b.overflow_;
    return r;
  }
  friend constexpr CheckedSize operator*(CheckedSize a, CheckedSize b) {
    CheckedSize r{0};
    r.overflow_ = __builtin_mul_overflow(a.value_, b.value_, &r.value_) || a.overflow_ || b.overflow_;
    return r;
  }
  // Division by a constant of ours; never by something from outside.
  friend constexpr CheckedSize operator/(CheckedSize a, std::uint64_t b) {
    a.value_ /= b;
    return a;
  }
  constexpr CheckedSize align_up(std::uint64_t alignment) const {
    return (*this + CheckedSize(alignment - 1)) / alignment * CheckedSize(alignment);
  }

  // The number, or nothing if any step on the way overflowed.
  constexpr std::optional<std::uint64_t> get() const {
    if (overflow_) return std::nullopt;
    return value_;
  }
  constexpr bool at_most(std::uint64_t limit) const { return !overflow_ && value_ <= limit; }

 private:
  std::uint64_t value_;
  bool overflow_ = false;
};

}  // namespace quire
