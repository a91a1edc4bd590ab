// Random requests together, in a cache too small for them, against the same ones by themselves.
#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <thread>

#include "show.h"

namespace quire::bench {
namespace {

struct Options {
  std::int64_t requests = 200;
  std::uint64_t seed = 1;
  std::int64_t longest = 3000;
  std::int64_t predict = 24;
  std::int64_t together = 24;
  std::int64_t batch = 512;
};

struct Drawn {
  Request request;
  std::optional<std::int64_t> cancel_after;  // so many events
};

struct Read {
  std::vector<Completion::Choice> choices;
  std::optional<Error> error;
  RequestReport report;
};

std::string draw_policy(Dice& dice, std::int64_t longest) {
  const std::int64_t size = dice.log_uniform(32, std::max<std::int64_t>(longest / 4, 33));
  switch (dice.below(8)) {
    case 0:
      return fmt::format("window:{}", size);
    case 1:
      return fmt::format("sinks:{}+{}", 1 + dice.below(8), size);
    case 2:
      return dice.one_in(2) ? fmt::format("h2o:{}", size) : fmt::format("h2o:{}%", 20 + dice.below(60));
    case 3:
      return dice.one_in(2) ? fmt::format("snapkv:{}", size) : fmt::format("snapkv:{}%", 20 + dice.below(60));
    default:
      return "full";
  }
}

std::vector<Drawn> draw(const Model& model, const Options& options) {
  Dice dice(options.seed);
  std::vector<Tokens> documents;
  for (int i = 0; i < 3; ++i) documents.push_back(made_up(model, dice, options.longest));
  std::vector<Drawn> all;
  for (std::int64_t i = 0; i < options.requests; ++i) {
    const std::int64_t length = dice.log_uniform(1, options.longest);
    const Tokens& document = documents[static_cast<std::size_t>(dice.below(std::ssize(documents)))];
    const std::int64_t shared = dice.one_in(4) ? 0 : dice.below(length + 1);
    const bool guesses = dice.one_in(3);
    Tokens tokens(document.begin(), document.begin() + shared);
    Tokens own = made_up(model, dice, length - shared);
    if (guesses) std::copy_n(own.begin(), own.size() / 2, own.end() - std::ssize(own) / 2);  // so that some come true
    tokens.insert(tokens.end(), own.begin(), own.end());
    Drawn drawn{greedy(std::move(tokens), 1 + dice.below(options.predict)), {}};
    Request& request = drawn.request;
    request.ignore_end = dice.one_in(2);
    request.cache_policy = draw_policy(dice, options.longest);
    request.priority = static_cast<int>(dice.below(3));
    request.salt = dice.one_in(4) ? "another" : "";
    request.choices = dice.one_in(8) ? 2 : 1;
    request.speculation = guesses ? Speculation::prompt_lookup : Speculation::off;
    if (dice.one_in(8)) request.keep = std::chrono::milliseconds(dice.below(2000));
    if (dice.one_in(10)) drawn.cancel_after = dice.below(request.max_tokens + 1);
    all.push_back(std::move(drawn));
  }
  return all;
}

Read read(Engine& engine, const Drawn& drawn) {
  Read read;
  auto stream = engine.submit(drawn.request);
  if (!stream.ok()) {
    read.error = stream.error();
    return read;
  }
  read.choices.resize(static_cast<std::size_t>(drawn.request.choices));
  for (std::int64_t events = 0;; ++events) {
    if (drawn.cancel_after == events) stream->cancel();
    const auto event = stream->next();
    if (!event) break;
    Completion::Choice& to = read.choices[static_cast<std::size_t>(event->choice)];
    if (event->token) to.tokens.push_back(*event->token);
    to.text += event->text;
    if (event->end) to.stop = *event->end;
  }
  const auto report = stream->report();
  if (report.ok()) {
    read.report = *report;
  } else {
    read.error = report.error();
  }
  return read;
}

// By itself in an empty cache, once and without guesses: what every choice must say.
Result<Completion::Choice> truth(Engine& engine, Request request) {
  request.choices = 1;
  request.speculation = Speculation::off;
  engine.forget_cached();
  QUIRE_TRY(const Completion completion, answer(engine, std::move(request)));
  if (completion.report.cached_tokens > 0) return fail(Errc::invalid_argument, "the cache was not empty");
  return completion.choices[0];
}

bool agrees(const Completion::Choice& choice, const Completion::Choice& with) {
  if (choice.stop != StopReason::cancelled) {
    return choice.tokens == with.tokens && choice.text == with.text && choice.stop == with.stop;
  }
  return choice.tokens.size() <= with.tokens.size() &&
         std::equal(choice.tokens.begin(), choice.tokens.end(), with.tokens.begin());
}

// Room for the longest request with two choices, and half as much again for all others.
std::uint64_t tight_budget(const Model& model, const Options& options) {
  const ModelInfo& info = model.info();
  const auto per_token = static_cast<std::uint64_t>(info.layers) * static_cast<std::uint64_t>(info.kv_heads) *
                         static_cast<std::uint64_t>(info.head_dim) * 4;
  const auto tokens = static_cast<std::uint64_t>(options.longest + 2 * (options.predict + 64));
  return per_token * tokens * 3 / 2;
}

struct Watched {
  std::uint64_t most_bytes = 0, looks = 0;
};

Watched watch(const Engine& engine, const std::atomic<bool>& over) {
  Watched watched;
  while (!over) {
    const EngineStats stats = engine.stats();
    watched.most_bytes = std::max(watched.most_bytes, stats.bytes_used + stats.bytes_cached);
    ++watched.looks;
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  return watched;
}

Result<Shown> show(const Setting& setting, const Options& options) {
  const std::vector<Drawn> all = draw(*setting.model, options);
  EngineOptions tight;
  tight.max_batch = options.batch;
  tight.cache.bytes = tight_budget(*setting.model, options);
  QUIRE_TRY(Engine engine, setting.start(tight));

  say(fmt::format("random: {} requests, {} at a time, {} bytes of cache", all.size(), options.together,
                  tight.cache.bytes));
  std::vector<Read> reads(all.size());
  std::atomic<std::size_t> next{0};
  std::atomic<bool> over{false};
  Watched watched;
  const auto start = Clock::now();
  std::thread watcher([&] { watched = watch(engine, over); });
  std::vector<std::thread> readers;
  for (std::int64_t r = 0; r < options.together; ++r) {
    readers.emplace_back([&] {
      for (std::size_t i = next++; i < all.size(); i = next++) {
        reads[i] = read(engine, all[i]);
        if (i % 20 == 19) say(fmt::format("random: {} read", i + 1));
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  const double together_ms = milliseconds_since(start);
  over = true;
  watcher.join();
  wait_until_idle(engine);
  const EngineStats stats = engine.stats();
  engine.forget_cached();
  const EngineStats idle = engine.stats();

  say("random: the same one at a time");
  QUIRE_TRY(Engine alone, setting.start());
  const auto start_alone = Clock::now();
  std::int64_t differences = 0, failed = 0;
  std::map<std::string, std::int64_t> policies;
  Json wrong = Json::array();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Request& request = all[i].request;
    ++policies[request.cache_policy.substr(0, request.cache_policy.find(':'))];
    const auto note = [&](const std::string& what) {
      wrong.push_back({{"request", i},
                       {"what", what},
                       {"prompt", request.tokens.size()},
                       {"policy", request.cache_policy},
                       {"choices", request.choices},
                       {"lookup", request.speculation == Speculation::prompt_lookup},
                       {"cached", reads[i].report.cached_tokens},
                       {"preemptions", reads[i].report.preemptions}});
      say("random: " + wrong.back().dump());
    };
    if (reads[i].error) {
      ++failed;
      note(reads[i].error->message);
      continue;
    }
    QUIRE_TRY(const Completion::Choice expected, truth(alone, request));
    for (const Completion::Choice& choice : reads[i].choices) {
      if (agrees(choice, expected)) continue;
      ++differences;
      note("differs");
    }
    if (i % 20 == 19) say(fmt::format("random: {} compared", i + 1));
  }

  Shown shown;
  shown.figures = {{"requests", options.requests},
                   {"seed", options.seed},
                   {"longest", options.longest},
                   {"predict", options.predict},
                   {"together", options.together},
                   {"policies", policies},
                   {"differences", differences},
                   {"failed", failed},
                   {"wrong", wrong},
                   {"cancelled", stats.cancelled},
                   {"preemptions", stats.preemptions},
                   {"prompt_tokens", stats.prompt_tokens},
                   {"cached_tokens", stats.cached_tokens},
                   {"computed_tokens", stats.computed_tokens},
                   {"generated_tokens", stats.generated_tokens},
                   {"drafted_tokens", stats.drafted_tokens},
                   {"accepted_tokens", stats.accepted_tokens},
                   {"steps", stats.steps},
                   {"bytes_budget", stats.bytes_budget},
                   {"bytes_most", watched.most_bytes},
                   {"looks", watched.looks},
                   {"bytes_idle", idle.bytes_used + idle.bytes_cached},
                   {"together_ms", together_ms},
                   {"alone_ms", milliseconds_since(start_alone)}};
  shown.require("no answer differs", differences == 0);
  shown.require("no request failed", failed == 0);
  shown.require("some were preempted", stats.preemptions > 0);
  shown.require("some were cancelled", stats.cancelled > 0);
  shown.require("some guesses came true", stats.accepted_tokens > 0);
  shown.require("some prompts were found in the cache", stats.cached_tokens > 0);
  shown.require("never more bytes than the budget", watched.most_bytes <= stats.bytes_budget);
  shown.require("nothing held at idle", idle.bytes_used + idle.bytes_cached == 0);
  return shown;
}

}  // namespace

void add_random(CLI::App& app, Show& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("random", "Random requests together against each by itself");
  sub->add_option("--requests", options->requests, "How many")->check(CLI::PositiveNumber)->capture_default_str();
  sub->add_option("--seed", options->seed, "Of everything that is drawn")->capture_default_str();
  sub->add_option("--longest", options->longest, "Most tokens of a prompt")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--predict", options->predict, "Most tokens of an answer")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--together", options->together, "Requests at a time")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--batch", options->batch, "Most tokens of a step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->callback([&chosen, options] { chosen = [options](const Setting& setting) { return show(setting, *options); }; });
}

}  // namespace quire::bench
