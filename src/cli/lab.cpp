// `quire lab`: experiments on this machine, into a folder with results.json and report.html.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "cli/common.h"
#include "cli/report.h"
#include "core/clock.h"
#include "core/thread_pool.h"
#include "lab/experiment.h"
#include "lab/machine_info.h"
#include "lab/made_text.h"
#include "lab/notebook.h"
#include "lab/report.h"
#include "quire/version.h"
#include "server/page_files.h"

namespace quire::cli {
namespace {

using lab::Experiment;

struct Options {
  std::vector<std::string> names;
  std::string model, file, folder = "quire-lab";
  std::vector<std::int64_t> broken_key;  // layer, head, position; empty: the usual one
  int threads = 0;
  bool quick = false, again = false, list = false, json = false;
};

// Enough for the longest experiment.
constexpr std::size_t kMadeCharacters = 90'000;

std::string listing() {
  std::string text;
  for (const Experiment* e : lab::experiments()) text += fmt::format("  {:<10} {}\n", e->name, e->question);
  return text;
}

Result<std::vector<const Experiment*>> chosen(const std::vector<std::string>& names) {
  if (names.empty()) {
    return Error{Errc::invalid_argument,
                 fmt::format("no experiment named; expected all, or some of these:\n{}", listing())};
  }
  std::vector<const Experiment*> wanted;
  for (const std::string& name : names) {
    if (name == "all") {
      const auto all = lab::experiments();
      return std::vector<const Experiment*>(all.begin(), all.end());
    }
    const auto found = lab::find_experiment(name);
    if (!found.ok()) return found.error();
    if (std::ranges::find(wanted, *found) == wanted.end()) wanted.push_back(*found);
  }
  return wanted;
}

std::string_view chart_js() {
  const auto files = server::page_files();
  const auto found = std::ranges::find_if(files, [](const auto& f) { return f.path == "/ui/chart.js"; });
  return found->content;
}

// What is left, foretold from how much slower or faster than foretold the run was so far.
class Countdown {
 public:
  Countdown(const std::vector<const Experiment*>& all, bool quick) : quick_(quick) {
    for (const Experiment* e : all) ahead_ += expected(*e);
  }
  void begin(const Experiment& experiment) {
    current_ = &experiment;
    ahead_ -= expected(experiment);
    start_ = Clock::now();
  }
  void end() {
    taken_ += seconds();
    foreseen_ += expected(*current_);
  }
  double seconds() const { return milliseconds_since(start_) / 1000; }
  double left(double part) const {
    const double taken = taken_ + seconds(), foreseen = foreseen_ + part * expected(*current_);
    const double pace = foreseen > 0 ? taken / foreseen : 1;
    return pace * ((1 - part) * expected(*current_) + ahead_);
  }

 private:
  double expected(const Experiment& e) const { return quick_ ? e.quick_seconds : e.seconds; }

  bool quick_;
  const Experiment* current_ = nullptr;
  double ahead_ = 0, taken_ = 0, foreseen_ = 0;
  Clock::time_point start_;
};

Result<void> write_report(const std::filesystem::path& folder, const lab::Notebook& notebook) {
  return lab::write_file(folder / "report.html", lab::report_html(notebook.document(), chart_js()));
}

void say_outcome(const lab::Outcome& outcome) {
  for (const std::string& finding : outcome.findings) say(fmt::format("  {}\n", finding));
  for (const lab::Check& check : outcome.checks)
    say(fmt::format("  [{}] {}\n", check.met ? "ok" : "NOT MET", check.what));
}

int run(const Options& o) {
  if (o.list) {
    fmt::print("{}", listing());
    return kSuccess;
  }
  const auto wanted = chosen(o.names);
  if (!wanted.ok()) return report_error(wanted.error());
  ModelOptions named;
  named.path = o.model;
  const auto model = named.load();
  if (!model.ok()) return report_error(model.error());
  const auto text = o.file.empty() ? Result<std::string>(lab::made_text(kMadeCharacters)) : read_text(o.file);
  if (!text.ok()) return report_error(text.error());
  const lab::Tokens tokens = (*model)->tokenize(*text);
  if (tokens.size() < 64) {
    return report_error({Errc::invalid_argument, fmt::format("{}: {} tokens of text; expected at least 64, and some "
                                                             "12,000 for all experiments",
                                                             o.file, tokens.size())});
  }

  const int threads = o.threads > 0 ? o.threads : usable_cpus();
  const std::string source =
      o.file.empty() ? "written by the lab itself" : std::filesystem::path(o.file).filename().string();
  const lab::Conditions conditions{QUIRE_VERSION,
                                   cpu_description(threads),
                                   (*model)->info().name,
                                   lab::digest_of(**model),
                                   fmt::format("{}, {} tokens", source, tokens.size()),
                                   lab::digest_of(*text),
                                   o.quick,
                                   threads,
                                   fmt::format("{}", fmt::join(o.broken_key, ","))};
  auto notebook = lab::Notebook::open(o.folder, conditions);
  if (!notebook.ok()) return report_error(notebook.error());
  if (!notebook->set_aside().empty()) {
    say(fmt::format("quire: what {} had was measured under other conditions; it is now {}\n", o.folder,
                    notebook->set_aside().string()));
  }

  std::vector<const Experiment*> left;
  for (const Experiment* e : *wanted) {
    if (o.again || !notebook->has(e->name)) {
      left.push_back(e);
    } else {
      say(fmt::format("{}: done before; --again measures it once more\n", e->name));
    }
  }
  catch_interrupts();
  const bool progress = is_terminal(STDERR_FILENO);
  Countdown countdown(left, o.quick);
  int failed = 0;
  bool stopped = false;
  for (std::size_t i = 0; i < left.size() && !stopped; ++i) {
    const Experiment& experiment = *left[i];
    countdown.begin(experiment);
    lab::WorkbenchOptions options{o.quick, threads, &interrupted(), {}, {}};
    if (!o.broken_key.empty()) options.broken_key = {o.broken_key[0], o.broken_key[1], o.broken_key[2]};
    if (progress) {
      options.on_progress = [&](double part, std::string_view what) {
        say(fmt::format("\r\033[K[{}/{}] {} {:.0f} %: {}; about {} left", i + 1, left.size(), experiment.name,
                        100 * part, what, duration(countdown.left(part))));
      };
    } else {
      say(fmt::format("[{}/{}] {}; about {} left\n", i + 1, left.size(), experiment.name, duration(countdown.left(0))));
    }
    lab::Workbench bench(*model, tokens, options);
    const auto outcome = experiment.run(bench);
    if (progress) say("\r\033[K");
    if (!outcome.ok()) {
      stopped = outcome.error().code == Errc::cancelled;
      if (!stopped) {
        ++failed;
        say(fmt::format("quire: {}: {}\n", experiment.name, outcome.error().message));
      }
      continue;
    }
    say(fmt::format("{}, {}:\n", experiment.name, duration(countdown.seconds())));
    say_outcome(*outcome);
    const auto added = notebook->add(experiment, *outcome, countdown.seconds());
    if (!added.ok()) return report_error(added.error());
    const auto written = write_report(o.folder, *notebook);
    if (!written.ok()) return report_error(written.error());
    countdown.end();
  }
  if (left.empty()) {
    const auto written = write_report(o.folder, *notebook);
    if (!written.ok()) return report_error(written.error());
  }
  if (stopped) {
    say(fmt::format("stopped; what was done is in {}, and the same command goes on from there\n", o.folder));
    return kInterrupted;
  }
  if (o.json) std::cout << notebook->document().dump(1) << '\n';
  say(fmt::format("{}/report.html\n", o.folder));
  return failed == 0 ? kSuccess : kFailure;
}

}  // namespace

void add_lab(CLI::App& app, int& exit_status) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("lab", "Experiments that show what the cache does, with a report to look at");
  command->footer(
      "Experiments:\n" + listing() +
      "\nWrites results.json and report.html into a folder after each experiment. A run that was stopped goes "
      "on where it\nwas, as long as model, text, program and settings are the same.");
  command->add_option("experiment", o->names, "Which to run, or all")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("-m,--model", o->model, "Model file (GGUF); else $QUIRE_MODEL, else what lies in models/");
  command->add_option("-f,--file", o->file, "Text to measure on; else one that the lab writes itself");
  command->add_option("-o,--output", o->folder, "Folder for the results")->capture_default_str();
  command->add_option("-t,--threads", o->threads, "Threads; 0 for all this process may use")
      ->check(CLI::Range(0, 1024));
  command->add_option("--broken-key", o->broken_key, "What break overwrites: LAYER,HEAD,POSITION; else 3,0,57")
      ->delimiter(',')
      ->expected(3)
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--quick", o->quick, "Fewer and shorter measurements");
  command->add_flag("--again", o->again, "Measure what was done before once more");
  command->add_flag("--list", o->list, "Only name the experiments");
  command->add_flag("--json", o->json, "Print results.json on standard output in the end");
  command->callback([o, &exit_status] { exit_status = run(*o); });
}

}  // namespace quire::cli
