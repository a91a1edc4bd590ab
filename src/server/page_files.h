// The files of the web page, as they were when the program was built.
#pragma once

#include <span>
#include <string_view>

namespace quire::server {

struct PageFile {
  std::string_view path, type, content;
};
std::span<const PageFile> page_files();

}  // namespace quire::server
