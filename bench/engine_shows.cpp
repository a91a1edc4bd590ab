// What an engine for many requests must show, measured on a real model: one subcommand each, one JSON
// document each on standard output. The exit status tells a missed bar from a failure.
#include <exception>
#include <iostream>

#include "quire/version.h"
#include "show.h"

namespace {

constexpr int kMet = 0, kFailed = 1, kMissed = 3;

int run(int argc, char** argv) {
  using namespace quire::bench;
  Setting setting;
  Show chosen;
  CLI::App app{"What Quire's engine must show, measured"};
  app.set_version_flag("--version", "quire " QUIRE_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("-m,--model", setting.path, "Model file (GGUF)")->required();
  app.add_option("-t,--threads", setting.threads, "Threads; 0 for all this process may use")->capture_default_str();
  app.add_option("--kernels", setting.kernels, "As of quire run")->capture_default_str();
  add_random(app, chosen);
  add_sharing(app, chosen);
  add_stall(app, chosen);
  add_chat(app, chosen);
  add_lookup(app, chosen);
  add_schemas(app, chosen);
  CLI11_PARSE(app, argc, argv);

  const auto show = [&]() -> quire::Result<Shown> {
    QUIRE_TRY(setting.model, quire::Model::load(setting.path));
    return chosen(setting);
  };
  const quire::Result<Shown> shown = show();
  if (!shown.ok()) {
    say("engine_shows: " + shown.error().message);
    return kFailed;
  }
  std::cout << shown->document().dump(2) << std::endl;
  return shown->met() ? kMet : kMissed;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    quire::bench::say(std::string("engine_shows: ") + error.what());
    return kFailed;
  }
}
