#include "lab/notebook.h"

#include <algorithm>
#include <fstream>
#include <system_error>

#include "core/fail.h"
#include "core/hash.h"
#include "core/hex.h"
#include "engine/model_parts.h"

namespace quire::lab {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;

std::string hex(const Digest& digest) { return to_hex(std::span(digest).first(8)); }

Json to_json(const Conditions& c) {
  return {{"version", c.version},         {"machine", c.machine}, {"model", c.model},
          {"model_file", c.model_file},   {"text", c.text},       {"quick", c.quick},
          {"text_digest", c.text_digest}, {"threads", c.threads}, {"broken_key", c.broken_key}};
}

// Somebody may have edited it: what is not as add() writes it is an empty object.
Json read_document(const fs::path& path) {
  std::ifstream file(path);
  Json document = file ? Json::parse(file, nullptr, false) : Json{};
  const auto is_entry = [](const Json& e) { return e.is_object() && e.contains("name") && e["name"].is_string(); };
  const bool usable = document.is_object() && document.contains("schema") && document["schema"] == kSchema &&
                      document.contains("conditions") && document.contains("experiments") &&
                      document["experiments"].is_array() && std::ranges::all_of(document["experiments"], is_entry);
  return usable ? document : Json::object();
}

// Experiments in the order of the list, whatever the order in which they were run.
std::size_t place(const Json& entry) {
  const std::string name = entry.value("name", "");
  const auto all = experiments();
  const auto found = std::ranges::find_if(all, [&](const Experiment* e) { return e->name == name; });
  return static_cast<std::size_t>(found - all.begin());
}

}  // namespace

std::string digest_of(std::string_view text) {
  Hasher hasher;
  hasher.update(std::as_bytes(std::span(text)));
  return hex(hasher.finish());
}

std::string digest_of(const Model& model) {
  constexpr std::size_t kSamples = 64, kSampleBytes = 1 << 16;
  const std::span<const std::byte> bytes = model.parts().file.bytes();
  Hasher hasher;
  hasher.update(static_cast<std::uint64_t>(bytes.size()));
  for (std::size_t i = 0; i < kSamples; ++i) {
    const std::size_t at = bytes.size() / kSamples * i;
    hasher.update(bytes.subspan(at, std::min(kSampleBytes, bytes.size() - at)));
  }
  return hex(hasher.finish());
}

Result<void> write_file(const fs::path& path, std::string_view content) {
  const fs::path half = path.string() + ".part";
  {
    std::ofstream file(half, std::ios::binary);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    file.flush();
    if (!file) return fail(Errc::io, "{}: cannot write; is the disk full, or the folder read-only?", half.string());
  }
  std::error_code error;
  fs::rename(half, path, error);
  if (error) return fail(Errc::io, "{}: {}", path.string(), error.message());
  return {};
}

Result<Notebook> Notebook::open(const fs::path& folder, const Conditions& conditions) {
  Notebook notebook;
  notebook.folder_ = folder;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return fail(Errc::io, "{}: cannot make the folder: {}", folder.string(), error.message());
  const Json wanted = to_json(conditions);
  Json found = read_document(notebook.file());
  if (!found.empty() && found["conditions"] == wanted) {
    notebook.document_ = std::move(found);
    return notebook;
  }
  if (fs::exists(notebook.file(), error)) {
    int number = 1;
    const auto name = [&] { return folder / fmt::format("results.{}.json", number); };
    while (fs::exists(name(), error)) ++number;
    notebook.set_aside_ = name();
    fs::rename(notebook.file(), notebook.set_aside_, error);
    if (error) return fail(Errc::io, "{}: {}", notebook.file().string(), error.message());
  }
  notebook.document_ = {{"schema", kSchema}, {"conditions", wanted}, {"experiments", Json::array()}};
  return notebook;
}

bool Notebook::has(std::string_view experiment) const {
  for (const Json& entry : document_["experiments"]) {
    if (entry.value("name", "") == experiment) return true;
  }
  return false;
}

Result<void> Notebook::add(const Experiment& experiment, const Outcome& outcome, double seconds) {
  Json entry{
      {"name", experiment.name}, {"title", experiment.title}, {"question", experiment.question}, {"seconds", seconds}};
  entry.update(to_json(outcome));
  std::vector<Json> entries;
  for (Json& other : document_["experiments"]) {
    if (other.value("name", "") != experiment.name) entries.push_back(std::move(other));
  }
  entries.push_back(std::move(entry));
  std::ranges::stable_sort(entries, {}, place);
  document_["experiments"] = entries;
  return write_file(file(), document_.dump(1));
}

}  // namespace quire::lab
