// `quire inspect`: what is in a model file.
#include <fmt/format.h>

#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/common.h"
#include "cli/report.h"
#include "loader/gguf.h"
#include "loader/mapped_file.h"

namespace quire::cli {
namespace {

struct InspectOptions {
  std::string path;
  bool json = false;
  bool tensors = false;
};

std::string shape(const GgufTensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.dims.begin(), tensor.dims.begin() + tensor.rank, ", "));
}

nlohmann::ordered_json to_json(const Gguf& gguf) {
  nlohmann::ordered_json out{{"file", gguf.file_name()}, {"version", gguf.version()}};
  for (const std::string_view key : gguf.keys()) out["metadata"][std::string(key)] = gguf.show(key);
  for (const GgufTensor& t : gguf.tensors()) {
    out["tensors"].push_back(
        {{"name", t.name}, {"type", info(t.type).name}, {"shape", shape(t)}, {"bytes", t.data.size()}});
  }
  return out;
}

void print(const Gguf& gguf, bool tensors) {
  fmt::print("{}: GGUF version {}, {} keys, {} tensors\n\n", gguf.file_name(), gguf.version(), gguf.keys().size(),
             gguf.tensors().size());
  for (const std::string_view key : gguf.keys()) fmt::print("  {:<44} {}\n", key, gguf.show(key));
  struct Total {
    std::size_t tensors = 0;
    std::uint64_t values = 0, bytes = 0;
  };
  std::map<std::string_view, Total> totals;
  for (const GgufTensor& t : gguf.tensors()) {
    Total& total = totals[info(t.type).name];
    ++total.tensors;
    total.values += t.elements();
    total.bytes += t.data.size();
  }
  fmt::print("\n  {:<8} {:>8} {:>16} {:>12} {:>10}\n", "type", "tensors", "values", "bytes", "bits each");
  for (const auto& [type, total] : totals) {
    fmt::print("  {:<8} {:>8} {:>16} {:>12} {:>10.2f}\n", type, total.tensors, total.values, human_bytes(total.bytes),
               8.0 * static_cast<double>(total.bytes) / static_cast<double>(total.values));
  }
  if (!tensors) return;
  fmt::print("\n");
  for (const GgufTensor& t : gguf.tensors()) {
    fmt::print("  {:<44} {:<7} {:>12}  {}\n", t.name, info(t.type).name, human_bytes(t.data.size()), shape(t));
  }
}

int inspect(const InspectOptions& o) {
  const auto path = find_model(o.path);
  if (!path.ok()) return report_error(path.error());
  const auto file = MappedFile::open(*path);
  if (!file.ok()) return report_error(file.error());
  const auto gguf = Gguf::parse(file->bytes(), *path);
  if (!gguf.ok()) return report_error(gguf.error());
  if (o.json) {
    std::cout << to_json(*gguf).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  } else {
    print(*gguf, o.tensors);
  }
  return kSuccess;
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand("inspect", "Show what is in a model file");
  command->add_option("file,-m,--model", options->path, "Model file (GGUF)");
  command->add_flag("--tensors", options->tensors, "List every tensor");
  command->add_flag("--json", options->json, "Print one JSON document");
  command->callback([options, &exit_status] { exit_status = inspect(*options); });
}

}  // namespace quire::cli
