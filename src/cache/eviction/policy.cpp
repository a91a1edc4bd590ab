#include "cache/eviction/policy.h"

#include <fmt/ranges.h>

#include "core/fail.h"

namespace quire {
namespace {

struct Known {
  std::string_view name;
  std::unique_ptr<EvictionPolicy> (*make)();
};

constexpr Known kKnown[] = {
    {"return-rate", make_return_rate},
    {"lru", make_lru},
    {"s3-fifo", make_s3fifo},
};

}  // namespace

std::vector<std::string> eviction_policy_names() {
  std::vector<std::string> names;
  for (const Known& known : kKnown) names.emplace_back(known.name);
  return names;
}

Result<std::unique_ptr<EvictionPolicy>> make_eviction_policy(std::string_view name) {
  for (const Known& known : kKnown) {
    if (known.name == name) return known.make();
  }
  return fail(Errc::invalid_argument, "eviction policy '{}' is not known; expected one of {}", name,
              fmt::join(eviction_policy_names(), ", "));
}

}  // namespace quire
