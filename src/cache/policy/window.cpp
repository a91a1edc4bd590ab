// The last N tokens, exactly, whatever the page or chunk size; whole pages that fell out are freed.
#include <fmt/format.h>

#include "cache/policy/policy.h"
#include "core/fail.h"

namespace quire {
namespace {

class Window : public RetentionPolicy {
 public:
  explicit Window(std::int64_t tokens) : tokens_(tokens) {}
  std::string name() const override { return fmt::format("window:{}", tokens_); }
  KvVisibility visible() const override { return {0, tokens_}; }

 private:
  std::int64_t tokens_;
};

}  // namespace

Result<std::unique_ptr<RetentionPolicy>> make_window(std::string_view arguments) {
  QUIRE_TRY(const std::int64_t tokens, parse_count("window", arguments));
  return std::unique_ptr<RetentionPolicy>(std::make_unique<Window>(tokens));
}

}  // namespace quire
