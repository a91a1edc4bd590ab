// What one rendering may still spend. Templates come out of model files, which may be hostile:
// every step and every byte is paid for. Running out is sticky, so code that only builds values
// need not report it: the interpreter asks before each step.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "quire/result.h"

namespace quire::jinja {

class Budget {
 public:
  Budget(std::size_t steps, std::size_t text_bytes) : steps_(steps), text_bytes_(text_bytes) {}

  bool spend(std::size_t steps) {
    if (steps > steps_) exhaust("the template takes too many steps");
    if (exhausted()) return false;
    steps_ -= steps;
    return true;
  }
  // Copying is work too, and paying for it bounds the memory of a whole rendering.
  bool spend_bytes(std::size_t bytes) {
    const std::size_t unpaid = unpaid_bytes_ + bytes % kBytesPerStep;
    unpaid_bytes_ = unpaid % kBytesPerStep;
    return spend(bytes / kBytesPerStep + unpaid / kBytesPerStep);
  }

  void exhaust(const char* reason) {
    if (!reason_) reason_ = reason;
  }
  bool exhausted() const { return reason_ != nullptr; }
  Error error() const { return Error{Errc::bad_file, reason_ ? reason_ : ""}; }

  std::size_t text_bytes() const { return text_bytes_; }  // of a single string

 private:
  // 1'000'000 steps x 128 B = 128 MB copied at most with the default limits.
  static constexpr std::size_t kBytesPerStep = 128;
  std::size_t steps_;
  std::size_t text_bytes_;
  std::size_t unpaid_bytes_ = 0;  // small texts add up
  const char* reason_ = nullptr;
};

// A string under construction that stops growing when the budget says so.
class TextBuilder {
 public:
  explicit TextBuilder(Budget& budget) : budget_(&budget) {}

  void append(std::string_view s) {
    if (s.size() > budget_->text_bytes() - text_.size()) budget_->exhaust("the template makes too long a text");
    if (!budget_->spend_bytes(s.size())) return;
    text_.append(s);
  }
  void append(std::size_t count, char c) {
    if (count > budget_->text_bytes() - text_.size()) budget_->exhaust("the template makes too long a text");
    if (!budget_->spend_bytes(count)) return;
    text_.append(count, c);
  }

  Budget& budget() { return *budget_; }
  std::size_t size() const { return text_.size(); }
  std::string take() { return std::move(text_); }

 private:
  Budget* budget_;
  std::string text_;
};

}  // namespace quire::jinja
