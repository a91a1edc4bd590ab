// Any bytes as the results.json that `quire lab` goes on from: read, added to, and drawn.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "lab/notebook.h"
#include "lab/report.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quire::lab;
  static const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("quire-notebook-fuzz-" + std::to_string(getpid()));
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  {
    std::ofstream file(folder / "results.json", std::ios::binary);
    file.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  }
  auto notebook = Notebook::open(folder, {});
  if (!notebook.ok()) std::abort();  // what cannot be gone on from is set aside
  (void)notebook->has("speed");
  Outcome outcome;
  outcome.find("found");
  if (!notebook->add(*experiments().front(), outcome, 1).ok() || !notebook->has(experiments().front()->name))
    std::abort();
  (void)report_html(notebook->document(), "");
  return 0;
}
