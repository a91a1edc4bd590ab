// What the subcommands share.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quire/session.h"

namespace quire::cli {

inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;
inline constexpr int kWrongCommandLine = 2;
inline constexpr int kInterrupted = 130;  // as shells report a program ended by Ctrl-C

void say(const std::string& text);     // to standard error, which may be closed or full: nothing is thrown
int report_error(const Error& error);  // prints it, returns the exit status that fits it

inline constexpr const char* kKernelsHelp =
    "auto (the fastest), exact (the fastest that round nothing to 8 bits), ref (slow truth), portable, avx2, avx512, "
    "vnni (avx512, activations in 8 bits) or bf16 (vnni, and attention in bytes and bf16)";

// Options of every command that runs a model.
struct ModelOptions {
  std::string path;
  std::int64_t context = 0;  // 0: chosen by the command
  int threads = 0;
  std::int64_t batch = 512;
  std::string kernels = "auto";
  bool keep_packed = false;
  CacheSettings cache;

  void add_to(CLI::App& app);
  void add_all_but_the_path_to(CLI::App& app);
  Result<std::shared_ptr<const Model>> load() const;
  // at_least: tokens the command knows it needs.
  Result<Session> open(const std::shared_ptr<const Model>& model, std::int64_t at_least) const;
};

// -m, else QUIRE_MODEL, else the models/ folder of the checkout or of the current folder.
Result<std::string> find_model(const std::string& given);

Result<std::string> read_text(const std::string& path);  // "-" is standard input

// Turns true at Ctrl-C. A second one ends the program while it computes: it may be stuck.
std::atomic<bool>& interrupted();
std::atomic<bool>& computing();
void catch_interrupts();

bool is_terminal(int fd);

// Each adds its subcommand; the callback sets exit_status.
void add_run(CLI::App& app, int& exit_status);
void add_perplexity(CLI::App& app, int& exit_status);
void add_inspect(CLI::App& app, int& exit_status);
void add_bench(CLI::App& app, int& exit_status);
void add_serve(CLI::App& app, int& exit_status);
void add_plan(CLI::App& app, int& exit_status);
void add_trace(CLI::App& app, int& exit_status);
void add_lab(CLI::App& app, int& exit_status);

}  // namespace quire::cli
