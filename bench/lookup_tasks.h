// What prompt lookup is measured on: texts to be said again with one change, where it should help, and
// prose, where it must not hurt.
#pragma once

#include <span>
#include <string_view>

namespace quire::bench {

struct RewriteTask {
  std::string_view from, to;
  std::string_view text;
};

std::span<const RewriteTask> rewrite_tasks();
std::span<const std::string_view> prose_tasks();

}  // namespace quire::bench
