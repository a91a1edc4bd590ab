// API keys. They are kept as digests and compared in constant time; a key's tenant is a name that only this
// server can compute, so that what tenants cache is apart and nobody can guess another's salt.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/hash.h"
#include "quire/result.h"
#include "server/http.h"

namespace quire::server {

class Keys {
 public:
  // One key a line; lines that are empty or begin with '#' do not count. The file must be its owner's alone.
  Result<void> add_file(const std::string& path, bool admin);
  Result<void> add(const std::string& key, bool admin);

  bool required() const { return !keys_.empty(); }
  // Nothing where no key was sent that fits.
  std::optional<Caller> caller(const HttpRequest& request) const;

 private:
  struct Key {
    Digest digest;
    bool admin;
    std::string tenant;
    std::string owner;
  };
  std::vector<Key> keys_;
};

}  // namespace quire::server
