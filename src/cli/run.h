// `quire run`, shared between completing a text and chatting.
#pragma once

#include <optional>
#include <string>

#include "cli/common.h"

namespace quire::cli {

struct RunOptions {
  ModelOptions model;
  SamplingOptions sampling;
  std::optional<std::uint64_t> seed;
  std::optional<std::string> prompt;
  std::string file;
  std::string system;
  std::int64_t predict = -1;
  bool chat = false;
  bool ignore_end = false;
  bool no_cache = false;
  bool json = false;
};

int chat(const RunOptions& options);

// Sampling with its seed settled: the user's, or one from the system.
SamplingOptions seeded(const RunOptions& options);

// A line of progress on a terminal while a long prompt is read.
std::function<void(std::int64_t, std::int64_t)> prefill_progress(bool quiet);

// Text that is not the model's goes to standard error, dimmed on a terminal.
void print_note(const std::string& text);

}  // namespace quire::cli
