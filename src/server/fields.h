// The fields of a JSON object from a client: every one checked for its type and range where it is read.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/fail.h"
#include "server/api_error.h"

namespace quire::server {

// An object of at most 64 levels.
Api<Json> parse_object(std::string_view text);

template <class... Args>
ApiError bad_field(const std::string& param, fmt::format_string<Args...> format, Args&&... args) {
  return {400, fmt::format("'{}': ", param) + fmt::format(format, std::forward<Args>(args)...), param, "", 0};
}

class Fields {
 public:
  // path: what the object is called in messages; empty for the whole.
  explicit Fields(const Json& object, std::string path = "") : object_(object), path_(std::move(path)) {}

  // Null counts as absent.
  const Json* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  std::string path_of(std::string_view name) const {
    return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
  }

  Api<std::int64_t> integer(std::string_view name, std::int64_t otherwise, std::int64_t least, std::int64_t most) const;
  Api<double> number(std::string_view name, double otherwise, double least, double most) const;
  Api<bool> boolean(std::string_view name, bool otherwise) const;
  Api<std::string> string(std::string_view name, std::string otherwise, std::size_t longest = 1 << 20) const;
  // One string or a list of them.
  Api<std::vector<std::string>> strings(std::string_view name, std::size_t most) const;
  // Nothing where it is absent.
  Api<std::optional<Fields>> object(std::string_view name) const;

  const Json& json() const { return object_; }

 private:
  const Json& object_;
  std::string path_;
};

std::string kind_of(const Json& value);  // "a string", "a list" ...

}  // namespace quire::server
