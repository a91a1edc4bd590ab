// The first S tokens and the last N (StreamingLLM): much attention rests on the very first tokens
// whatever they say, and a model that loses them loses its balance. Queries see the sinks as if
// they lay right before the window, so a text may be longer than the model was trained for.
#include <fmt/format.h>

#include "cache/policy/policy.h"
#include "core/fail.h"

namespace quire {
namespace {

class Sinks : public RetentionPolicy {
 public:
  Sinks(std::int64_t sinks, std::int64_t window) : visible_{sinks, window} {}
  std::string name() const override { return fmt::format("sinks:{}+{}", visible_.sinks, visible_.window); }
  KvVisibility visible() const override { return visible_; }

 private:
  KvVisibility visible_;
};

}  // namespace

Result<std::unique_ptr<RetentionPolicy>> make_sinks(std::string_view arguments) {
  const std::size_t plus = arguments.find('+');
  if (plus == std::string_view::npos) {
    return fail(Errc::invalid_argument,
                "cache policy sinks: '{}' lacks a plus; expected sinks:S+N, such as sinks:4+2044", arguments);
  }
  QUIRE_TRY(const std::int64_t sinks, parse_count("sinks", arguments.substr(0, plus)));
  QUIRE_TRY(const std::int64_t window, parse_count("sinks", arguments.substr(plus + 1)));
  return std::unique_ptr<RetentionPolicy>(std::make_unique<Sinks>(sinks, window));
}

}  // namespace quire
