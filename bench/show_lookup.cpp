// Prompt lookup: how much faster it says a text again with one change, and that prose is not slower.
#include <algorithm>
#include <optional>

#include "lookup_tasks.h"
#include "show.h"

namespace quire::bench {
namespace {

struct Options {
  std::int64_t predict = 256;
  std::size_t tasks = 10;
  int repeats = 5;
  bool texts = false;
};

constexpr double kRewriteBar = 1.8, kProseBar = 0.97;

struct Measured {
  std::int64_t tokens = 0, drafted = 0, accepted = 0;
  double off_ms = 0, lookup_ms = 0;  // medians of generating, without the prompt
  double ratio = 0;                  // median of those of one repeat
  bool same = true;
  std::string text;
};

Result<Completion> generate(Engine& engine, Request request, Speculation speculation) {
  request.speculation = speculation;
  return answer(engine, std::move(request));
}

Result<Measured> measure(const Setting& setting, Engine& engine, const std::string& task, const Options& options) {
  const std::vector<Message> messages{{"user", task}};
  QUIRE_TRY(Tokens tokens, setting.model->has_chat_template() ? setting.model->chat_prompt(messages)
                                                              : Result<Tokens>(setting.model->tokenize(task)));
  Request request = greedy(std::move(tokens), options.predict);
  request.ignore_end = false;
  Measured measured;
  std::vector<double> off_ms, lookup_ms, ratios;
  for (int i = 0; i < options.repeats; ++i) {
    // In turns, and each goes first as often as the other.
    std::optional<Completion> off, lookup;
    for (const bool first : {true, false}) {
      const bool guess = first == (i % 2 == 1);
      QUIRE_TRY((guess ? lookup : off),
                generate(engine, request, guess ? Speculation::prompt_lookup : Speculation::off));
    }
    off_ms.push_back(off->report.decode_ms);
    lookup_ms.push_back(lookup->report.decode_ms);
    ratios.push_back(off_ms.back() / lookup_ms.back());
    measured.same = measured.same && off->choices[0].tokens == lookup->choices[0].tokens;
    measured.tokens = off->report.generated_tokens;
    measured.drafted = lookup->report.drafted_tokens;
    measured.accepted = lookup->report.accepted_tokens;
    measured.text = off->choices[0].text;
  }
  if (measured.tokens < 2) return fail(Errc::invalid_argument, "'{}' is answered with nothing", task);
  measured.off_ms = median(off_ms);
  measured.lookup_ms = median(lookup_ms);
  measured.ratio = median(ratios);
  return measured;
}

double share(std::int64_t part, std::int64_t of) {
  return of == 0 ? 0 : static_cast<double>(part) / static_cast<double>(of);
}

struct Kind {
  Json tasks = Json::array();
  Measured sum;  // times and tokens of all
  double least = 0;
  Json json() const {
    const auto steps = static_cast<double>(sum.tokens - std::ssize(tasks));  // the first token is the prompt's
    return {{"ratio", sum.off_ms / sum.lookup_ms},
            {"least_ratio", least},
            {"tokens", sum.tokens},
            {"off_tokens_per_s", 1e3 * steps / sum.off_ms},
            {"lookup_tokens_per_s", 1e3 * steps / sum.lookup_ms},
            {"drafted", sum.drafted},
            {"accepted", sum.accepted},
            {"acceptance", share(sum.accepted, sum.drafted)},
            {"same_tokens", sum.same},
            {"tasks", tasks}};
  }
};

Result<Kind> measure_all(const Setting& setting, Engine& engine, const std::vector<std::string>& tasks,
                         const Options& options) {
  Kind kind;
  for (std::size_t i = 0; i < std::min(tasks.size(), options.tasks); ++i) {
    QUIRE_TRY(const Measured one, measure(setting, engine, tasks[i], options));
    say(fmt::format("lookup: task {}: {} tokens, {:.2f} times, {} of {} accepted", i, one.tokens, one.ratio,
                    one.accepted, one.drafted));
    Json json{{"tokens", one.tokens},
              {"ratio", one.ratio},
              {"drafted", one.drafted},
              {"accepted", one.accepted},
              {"acceptance", share(one.accepted, one.drafted)},
              {"same_tokens", one.same}};
    if (options.texts) json["text"] = one.text;
    kind.tasks.push_back(std::move(json));
    kind.least = i == 0 ? one.ratio : std::min(kind.least, one.ratio);
    kind.sum.tokens += one.tokens;
    kind.sum.drafted += one.drafted;
    kind.sum.accepted += one.accepted;
    kind.sum.off_ms += one.off_ms;
    kind.sum.lookup_ms += one.lookup_ms;
    kind.sum.same = kind.sum.same && one.same;
  }
  return kind;
}

Result<Shown> show(const Setting& setting, const Options& options) {
  std::vector<std::string> rewrites, prose;
  for (const RewriteTask& task : rewrite_tasks()) {
    rewrites.push_back(
        fmt::format("Repeat the text with \"{}\" replaced by \"{}\":\n\n{}", task.from, task.to, task.text));
  }
  for (const std::string_view task : prose_tasks()) prose.emplace_back(task);

  QUIRE_TRY(Engine engine, setting.start());
  QUIRE_TRY(const Kind repeated, measure_all(setting, engine, rewrites, options));
  QUIRE_TRY(const Kind written, measure_all(setting, engine, prose, options));
  Shown shown;
  shown.figures = {{"predict", options.predict},
                   {"repeats", options.repeats},
                   {"rewrites", repeated.json()},
                   {"prose", written.json()}};
  shown.require(fmt::format("rewrites at least {} times as fast", kRewriteBar),
                repeated.sum.off_ms >= kRewriteBar * repeated.sum.lookup_ms);
  shown.require(fmt::format("prose never below {} times as fast", kProseBar), written.least >= kProseBar);
  shown.require("the same tokens", repeated.sum.same && written.sum.same);
  return shown;
}

}  // namespace

void add_lookup(CLI::App& app, Show& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("lookup", "Prompt lookup against none, on rewrites and on prose");
  sub->add_option("--predict", options->predict, "Most tokens of an answer")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--tasks", options->tasks, "So many of each kind")->check(CLI::Range(1, 10))->capture_default_str();
  sub->add_option("--repeats", options->repeats, "The median of so many")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_flag("--texts", options->texts, "Show what was answered");
  sub->callback([&chosen, options] { chosen = [options](const Setting& setting) { return show(setting, *options); }; });
}

}  // namespace quire::bench
