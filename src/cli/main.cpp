#include <fmt/format.h>

#include <array>
#include <clocale>
#include <exception>
#include <string_view>
#include <vector>

#include "cli/common.h"
#include "quire/version.h"

namespace {

// Spellings of several letters after one dash, which people bring from llama.cpp.
std::string long_spelling(std::string_view argument) {
  struct Alias {
    std::string_view from, to;
  };
  constexpr std::array<Alias, 2> kAliases{{{"-ctk", "--cache-type-k"}, {"-ctv", "--cache-type-v"}}};
  for (const Alias& alias : kAliases) {
    if (argument == alias.from) return std::string(alias.to);
  }
  return std::string(argument);
}

int run(int argc, char** argv) {
  using namespace quire::cli;
  std::setlocale(LC_CTYPE, "");  // line editing needs to know the terminal's characters

  CLI::App app{"Quire: an LLM inference engine built around its key/value cache"};
  app.set_version_flag("--version", "quire " QUIRE_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  int status = kSuccess;
  add_run(app, status);
  add_perplexity(app, status);
  add_inspect(app, status);

  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) arguments.push_back(long_spelling(argv[i]));  // CLI11 wants them reversed
  try {
    app.parse(arguments);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "quire: {}\nTry 'quire --help' or 'quire COMMAND --help'.\n", error.what());
    return kWrongCommandLine;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "quire: out of memory; try a smaller -c/--ctx-size or a smaller model\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "quire: {}\n", error.what());
  }
  return quire::cli::kFailure;
}
