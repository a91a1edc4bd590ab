// Everything is kept.
#include "cache/policy/policy.h"
#include "core/fail.h"

namespace quire {
namespace {

class Full : public RetentionPolicy {
 public:
  std::string name() const override { return "full"; }
};

}  // namespace

Result<std::unique_ptr<RetentionPolicy>> make_full(std::string_view arguments) {
  if (!arguments.empty()) {
    return fail(Errc::invalid_argument, "cache policy full takes nothing behind a colon; found '{}'", arguments);
  }
  return std::unique_ptr<RetentionPolicy>(std::make_unique<Full>());
}

}  // namespace quire
