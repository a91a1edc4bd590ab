// A long prompt arrives while others generate: how long they wait between tokens, and how long it
// waits for its first.
#include <atomic>
#include <thread>

#include "show.h"

namespace quire::bench {
namespace {

struct Options {
  std::int64_t requests = 8;
  std::int64_t prompt = 512;
  std::int64_t longest = 6000;
  std::int64_t before = 64;  // tokens each has generated when the long prompt arrives
  std::int64_t repeats = 3;
};

constexpr double kBar = 3;

// One who generates, and when its reader saw each token.
struct Reader {
  explicit Reader(Stream stream_) : stream(std::move(stream_)) {}
  Stream stream;
  std::vector<Clock::time_point> seen;
  std::atomic<std::int64_t> count{0};
  std::thread thread;

  void read() {
    while (const auto event = stream.next()) {
      if (!event->token) continue;
      seen.push_back(Clock::now());
      ++count;
    }
  }
};

// Milliseconds between tokens of which the later was seen in this span.
std::vector<double> gaps(const std::vector<std::unique_ptr<Reader>>& readers, Clock::time_point from,
                         Clock::time_point to) {
  std::vector<double> all;
  for (const auto& reader : readers) {
    for (std::size_t i = 1; i < reader->seen.size(); ++i) {
      const auto at = reader->seen[i];
      if (at < from || at > to) continue;
      all.push_back(milliseconds(reader->seen[i - 1], at));
    }
  }
  return all;
}

void wait_for_tokens(const std::vector<std::unique_ptr<Reader>>& readers, std::int64_t count) {
  for (const auto& reader : readers) {
    while (reader->count < count && !reader->stream.ended()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

struct Arrival {
  Clock::time_point submitted, first_token;
  double ms() const { return milliseconds(submitted, first_token); }
};

Result<Arrival> arrive(Engine& engine, const Request& request) {
  Arrival arrival;
  arrival.submitted = Clock::now();
  QUIRE_TRY(Stream stream, engine.submit(request));
  const auto event = stream.next();
  arrival.first_token = Clock::now();
  QUIRE_TRY(const Completion rest, stream.wait());
  (void)rest;
  if (!event) return fail(Errc::cancelled, "the long prompt was not answered");
  return arrival;
}

struct Run {
  std::vector<double> before, during;  // milliseconds between tokens
  double first_token_ms, first_token_alone_ms, budget_ms;
  double ratio() const { return fraction_below(during, 0.99) / median(before); }
};

Result<Run> run(const Setting& setting, const Options& options) {
  const Model& model = *setting.model;
  QUIRE_TRY(Engine engine, setting.start());
  Dice dice(1);
  const Request late = greedy(made_up(model, dice, options.longest), 2);

  QUIRE_TRY(const Arrival alone, arrive(engine, late));
  say(fmt::format("stall: alone, the first token after {:.0f} ms", alone.ms()));
  engine.forget_cached();

  std::vector<std::unique_ptr<Reader>> readers;
  struct Stop {  // whatever happens, the threads end before what they read
    std::vector<std::unique_ptr<Reader>>& all;
    void operator()() const {
      for (const auto& reader : all) reader->stream.cancel();
      for (const auto& reader : all) {
        if (reader->thread.joinable()) reader->thread.join();
      }
    }
    ~Stop() { (*this)(); }
  } stop{readers};
  for (std::int64_t i = 0; i < options.requests; ++i) {
    QUIRE_TRY(Stream stream, engine.submit(greedy(made_up(model, dice, options.prompt), -1)));
    readers.push_back(std::make_unique<Reader>(std::move(stream)));
    readers.back()->thread = std::thread([reader = readers.back().get()] { reader->read(); });
  }
  wait_for_tokens(readers, 2);
  const auto all_generate = Clock::now();
  wait_for_tokens(readers, options.before);
  say("stall: the long prompt arrives");
  QUIRE_TRY(const Arrival arrival, arrive(engine, late));
  const double budget_ms = engine.stats().prefill_budget_ms;
  stop();

  Run result{gaps(readers, all_generate, arrival.submitted), gaps(readers, arrival.submitted, arrival.first_token),
             arrival.ms(), alone.ms(), budget_ms};
  if (result.before.empty() || result.during.empty()) {
    return fail(Errc::invalid_argument, "nobody generated; raise --before");
  }
  say(fmt::format("stall: {:.2f} times", result.ratio()));
  return result;
}

// The run in the middle: a machine that others use too makes some of them long.
Result<Shown> show(const Setting& setting, const Options& options) {
  std::vector<Run> runs;
  for (std::int64_t i = 0; i < options.repeats; ++i) {
    QUIRE_TRY(Run next, run(setting, options));
    runs.push_back(std::move(next));
  }
  std::ranges::sort(runs, {}, &Run::ratio);
  const Run& r = runs[(runs.size() - 1) / 2];
  std::vector<double> ratios;
  ratios.reserve(runs.size());
  for (const Run& each : runs) ratios.push_back(each.ratio());
  Shown shown;
  shown.figures = {{"requests", options.requests},
                   {"prompt", options.prompt},
                   {"long_prompt", options.longest},
                   {"gaps_before", r.before.size()},
                   {"before_p50_ms", median(r.before)},
                   {"before_p99_ms", fraction_below(r.before, 0.99)},
                   {"gaps_during", r.during.size()},
                   {"during_p50_ms", median(r.during)},
                   {"during_p99_ms", fraction_below(r.during, 0.99)},
                   {"during_most_ms", fraction_below(r.during, 1)},
                   {"ratio", r.ratio()},
                   {"ratios", ratios},
                   {"first_token_ms", r.first_token_ms},
                   {"first_token_alone_ms", r.first_token_alone_ms},
                   {"prefill_budget_ms", r.budget_ms}};
  shown.require(fmt::format("p99 during below {} times the median before", kBar), r.ratio() < kBar);
  return shown;
}

}  // namespace

void add_stall(CLI::App& app, Show& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("stall", "A long prompt arrives while others generate");
  sub->add_option("--requests", options->requests, "How many generate")
      ->check(CLI::Range(1, 60))
      ->capture_default_str();
  sub->add_option("--prompt", options->prompt, "Tokens of their prompts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--longest", options->longest, "Tokens of the long prompt")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--before", options->before, "Tokens each has generated when it arrives")
      ->check(CLI::Range(4, 4096))
      ->capture_default_str();
  sub->add_option("--repeats", options->repeats, "Runs, of which the middle one is shown")
      ->check(CLI::Range(1, 99))
      ->capture_default_str();
  sub->callback([&chosen, options] { chosen = [options](const Setting& setting) { return show(setting, *options); }; });
}

}  // namespace quire::bench
