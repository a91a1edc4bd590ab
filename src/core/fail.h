// Making and passing on errors, for the inside of the library.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "quire/result.h"

namespace quire {

template <class... Args>
Error fail(Errc code, fmt::format_string<Args...> format, Args&&... args) {
  return Error{code, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace quire

#define QUIRE_CONCAT_INNER(a, b) a##b
#define QUIRE_CONCAT(a, b) QUIRE_CONCAT_INNER(a, b)

// QUIRE_TRY(auto x, f());  x is f()'s value, or its error leaves the enclosing function.
#define QUIRE_TRY(declaration, expression) QUIRE_TRY_INNER(declaration, expression, QUIRE_CONCAT(quire_try_, __LINE__))
#define QUIRE_TRY_INNER(declaration, expression, result) \
  auto result = (expression);                            \
  if (!result.ok()) return std::move(result).error();    \
  declaration = std::move(result).value()

// QUIRE_CHECK_OK(f());  the same for a Result<void>.
#define QUIRE_CHECK_OK(expression)                                                     \
  do {                                                                                 \
    if (auto quire_r = (expression); !quire_r.ok()) return std::move(quire_r).error(); \
  } while (false)
