#include "cli/common.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

namespace quire::cli {

namespace fs = std::filesystem;

void say(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

int report_error(const Error& error) {
  say(fmt::format("quire: {}\n", error.message));
  return error.code == Errc::invalid_argument ? kWrongCommandLine : kFailure;
}

void ModelOptions::add_to(CLI::App& app) {
  app.add_option("-m,--model", path, "Model file (GGUF); else $QUIRE_MODEL, else what lies in models/");
  add_all_but_the_path_to(app);
}

void ModelOptions::add_all_but_the_path_to(CLI::App& app) {
  app.add_option("-c,--ctx-size", context, "Tokens the cache holds; 0 chooses by need")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("-t,--threads", threads, "Threads; 0 for all this process may use")->capture_default_str();
  app.add_option("-b,--batch-size", batch, "Tokens of a prompt computed at once")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->capture_default_str();
  constexpr const char* kTypes = "f32, f16, bf16, fp8, q8, q5, q4, q2, k4 or k2";
  app.add_option("--cache-type-k", cache.type_k, fmt::format("-ctk: how keys are kept: {}", kTypes))
      ->capture_default_str();
  app.add_option("--cache-type-v", cache.type_v, fmt::format("-ctv: how values are kept: {}", kTypes))
      ->capture_default_str();
  app.add_option("--cache-policy", cache.policy,
                 "Which tokens are kept: full, window:N, sinks:S+N, h2o:N or h2o:P%, snapkv:N or snapkv:P%")
      ->capture_default_str();
  app.add_option("--cache-strategy", cache.strategy,
                 "When to cache: always, long:N (only beyond N tokens), adaptive or off")
      ->capture_default_str();
  app.add_option("--cache-bytes", cache.bytes,
                 "Most the cache may take, such as 512M or 2G; 0 for what the machine has")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--cache-sinks", cache.sinks,
                 "First tokens that stay in 16 bits, in whole pages of 32; -1 as the types like")
      ->check(CLI::Range(std::int64_t{-1}, std::int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--cache-recent", cache.recent,
                 "Recent tokens that stay in 16 bits, in whole pages of 32; -1 as the types like")
      ->check(CLI::Range(std::int64_t{-1}, std::int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--cache-layout", cache.layout, "paged, or flat: one buffer for the whole context")
      ->capture_default_str();
  app.add_option("--kernels", kernels, kKernelsHelp)->capture_default_str();
  app.add_flag("--keep-packed", keep_packed,
               "Keep weights as kernels read them in MODEL.packed, about as large as the model, and start from there "
               "the next time");
}

Result<std::shared_ptr<const Model>> ModelOptions::load() const {
  auto found = find_model(path);
  if (!found.ok()) return found.error();
  return Model::load(*found, {keep_packed});
}

Result<Session> ModelOptions::open(const std::shared_ptr<const Model>& model, std::int64_t at_least) const {
  // Pages are taken as they are needed. The flat cache reserves its whole length: its default stays moderate.
  constexpr std::int64_t kDefaultFlatContext = 4096;
  SessionOptions options;
  const std::int64_t most = model->info().context;
  const std::int64_t by_need = cache.layout == "flat" ? std::min(std::max(at_least, kDefaultFlatContext), most) : most;
  options.context = context > 0 ? context : by_need;
  options.threads = threads;
  options.kernels = kernels;
  options.prefill_chunk = batch;
  options.cache = cache;
  auto session = Session::create(model, options);
  if (const std::string note = model->packed_note(); !note.empty()) say(fmt::format("quire: {}\n", note));
  return session;
}

Result<std::string> find_model(const std::string& given) {
  if (!given.empty()) return given;
  if (const char* environment = std::getenv("QUIRE_MODEL"); environment != nullptr && *environment != '\0') {
    return std::string(environment);
  }
  std::error_code error;
  std::vector<fs::path> folders{fs::current_path(error) / "models"};
  // The program lies in build/ or build/PRESET/ of a checkout.
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  folders.push_back(program / "../models");
  folders.push_back(program / "../../models");
  for (const fs::path& folder : folders) {
    std::vector<fs::path> models;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      if (it->path().extension() == ".gguf") models.push_back(it->path());
    }
    if (models.empty()) continue;
    // The default model if it is there, else the first by name.
    const auto preferred = std::ranges::find_if(
        models, [](const fs::path& p) { return p.filename().string().rfind("SmolLM2-135M-Instruct", 0) == 0; });
    const auto chosen = preferred != models.end() ? preferred : std::ranges::min_element(models);
    return fs::weakly_canonical(*chosen, error).string();
  }
  return Error{Errc::not_found,
               "no model: give one with -m FILE.gguf or QUIRE_MODEL, or fetch the default one with `make models`"};
}

Result<std::string> read_text(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::error_code error;
  std::ifstream file(path, std::ios::binary);
  if (fs::is_directory(path, error)) return Error{Errc::io, fmt::format("{}: a folder; expected a text file", path)};
  if (!file) return Error{Errc::not_found, fmt::format("{}: cannot open the text file", path)};
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (file.bad()) return Error{Errc::io, fmt::format("{}: cannot read the text file", path)};
  return text;
}

std::atomic<bool>& interrupted() {
  static std::atomic<bool> flag{false};
  return flag;
}

std::atomic<bool>& computing() {
  static std::atomic<bool> flag{true};
  return flag;
}

void catch_interrupts() {
  (void)interrupted();  // constructed before any signal can arrive
  (void)computing();
  struct sigaction action {};
  action.sa_handler = [](int) {
    if (interrupted().exchange(true) && computing()) _exit(kInterrupted);
  };
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

bool is_terminal(int fd) { return isatty(fd) == 1; }

}  // namespace quire::cli
