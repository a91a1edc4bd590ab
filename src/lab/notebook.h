// results.json: what was measured, on what and with what; written after every experiment, so that a run that was
// stopped goes on where it was.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lab/experiment.h"
#include "quire/model.h"
#include "quire/result.h"

namespace quire::lab {

// Results are comparable, and kept, where all of this is the same.
struct Conditions {
  std::string version;  // of the program
  std::string machine;
  std::string model;       // its name
  std::string model_file;  // a digest
  std::string text;        // what it is
  std::string text_digest;
  bool quick = false;
  int threads = 0;
  std::string broken_key;  // what `break` damages, where it is not the usual one

  bool operator==(const Conditions&) const = default;
};

std::string digest_of(std::string_view text);
// Of the size and of samples from all over the file: a large model need not be read for it.
std::string digest_of(const Model& model);

class Notebook {
 public:
  // Goes on with what the folder has of the same conditions. What it has of others is set aside under another name.
  static Result<Notebook> open(const std::filesystem::path& folder, const Conditions& conditions);

  bool has(std::string_view experiment) const;
  // The folder's earlier results that belong to other conditions, where there were any.
  const std::filesystem::path& set_aside() const { return set_aside_; }
  // Replaces what was there of it, and writes.
  Result<void> add(const Experiment& experiment, const Outcome& outcome, double seconds);
  const nlohmann::ordered_json& document() const { return document_; }
  std::filesystem::path file() const { return folder_ / "results.json"; }

 private:
  std::filesystem::path folder_, set_aside_;
  nlohmann::ordered_json document_;
};

// All of it, or the file that was there stays.
Result<void> write_file(const std::filesystem::path& path, std::string_view content);

}  // namespace quire::lab
