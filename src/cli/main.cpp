#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <clocale>
#include <cstdio>
#include <exception>
#include <iostream>
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
  constexpr std::array<Alias, 3> kAliases{
      {{"-ctk", "--cache-type-k"}, {"-ctv", "--cache-type-v"}, {"-ub", "--ubatch-size"}}};
  for (const Alias& alias : kAliases) {
    if (argument == alias.from) return std::string(alias.to);
  }
  return std::string(argument);
}

// What follows one of these is the user's text, whatever it looks like.
bool takes_text(std::string_view argument) {
  constexpr std::array<std::string_view, 5> kOptions{"-p", "--prompt", "--system", "-f", "--file"};
  return std::ranges::find(kOptions, argument) != kOptions.end();
}

int run(int argc, char** argv) {
  using namespace quire::cli;
  std::setlocale(LC_CTYPE, "");  // line editing needs to know the terminal's characters

  CLI::App app{"Quire: an LLM inference engine built around its key/value cache"};
  app.set_version_flag("--version", "quire " QUIRE_VERSION);
  app.require_subcommand(1);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // so that scripts can override
  app.get_formatter()->column_width(34);
  int status = kSuccess;
  add_run(app, status);
  add_perplexity(app, status);
  add_bench(app, status);
  add_inspect(app, status);
  add_serve(app, status);
  add_plan(app, status);
  add_trace(app, status);
  add_lab(app, status);

  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) {  // CLI11 wants them reversed
    arguments.push_back(takes_text(argv[i - 1]) ? argv[i] : long_spelling(argv[i]));
  }
  try {
    app.parse(arguments);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    say(fmt::format("quire: {}\nTry 'quire --help' or 'quire COMMAND --help'.\n", error.what()));
    return kWrongCommandLine;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  using quire::cli::say;
  try {
    const int status = run(argc, argv);
    // A full disk shows only now; an answer that was lost is no success.
    if (!std::cout.flush() || std::fflush(stdout) != 0) {
      say("quire: cannot write to standard output\n");
      return quire::cli::kFailure;
    }
    return status;
  } catch (const std::bad_alloc&) {
    say("quire: out of memory; try a smaller -c/--ctx-size or a smaller model\n");
  } catch (const std::exception& error) {
    say(fmt::format("quire: {}\n", error.what()));
  }
  return quire::cli::kFailure;
}
