// Result<T>: a value or an Error (or what else a part of the library says when it fails). Failures that a caller can
// meet are returned, never thrown; bugs are asserted (core/check.h).
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace quire {

enum class Errc {
  invalid_argument,  // the caller asked for something that makes no sense
  not_found,         // a file or a name does not exist
  bad_file,          // a file is damaged or hostile
  unsupported,       // well-formed, but not something this build can do
  io,                // the operating system refused
  context_full,      // no room left for another token
  out_of_memory,     // a memory budget is used up
  busy,              // the line is full; try again later
  cancelled,         // stopped on request
};

struct Error {
  Errc code;
  std::string message;  // one line: what, what was expected, what to do
};

template <class T, class E = Error>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(E error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const E& error() const& { return std::get<1>(state_); }
  E&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, E> state_;
};

template <class E>
class [[nodiscard]] Result<void, E> {
 public:
  Result() = default;
  Result(E error) : state_(std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  const E& error() const& { return std::get<1>(state_); }
  E&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<std::monostate, E> state_;
};

}  // namespace quire
