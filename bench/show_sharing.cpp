// Requests on one long prefix, computed once, against as many runs that compute it each.
#include <algorithm>

#include "show.h"

namespace quire::bench {
namespace {

struct Options {
  std::int64_t requests = 16;
  std::int64_t prefix = 2048;
  std::int64_t suffix = 8;
  std::int64_t predict = 32;
  int repeats = 3;
};

constexpr double kBar = 8;

using Answers = std::vector<Tokens>;

struct Run {
  double ms = 0;
  std::uint64_t computed = 0;
  Answers answers;
};

Result<Run> all_at_once(Engine& engine, const std::vector<Request>& requests) {
  engine.forget_cached();
  const std::uint64_t before = engine.stats().computed_tokens;
  const auto start = Clock::now();
  std::vector<Stream> streams;
  for (const Request& request : requests) {
    QUIRE_TRY(Stream stream, engine.submit(request));
    streams.push_back(std::move(stream));
  }
  Run run;
  for (Stream& stream : streams) {
    QUIRE_TRY(Completion completion, stream.wait());
    run.answers.push_back(std::move(completion.choices[0].tokens));
  }
  run.ms = milliseconds_since(start);
  run.computed = engine.stats().computed_tokens - before;
  return run;
}

Result<Run> one_after_the_other(Engine& engine, const std::vector<Request>& requests) {
  const std::uint64_t before = engine.stats().computed_tokens;
  const auto start = Clock::now();
  Run run;
  for (const Request& request : requests) {
    QUIRE_TRY(Completion completion, answer(engine, request));
    run.answers.push_back(std::move(completion.choices[0].tokens));
  }
  run.ms = milliseconds_since(start);
  run.computed = engine.stats().computed_tokens - before;
  return run;
}

Result<Shown> show(const Setting& setting, const Options& options) {
  const Model& model = *setting.model;
  Dice dice(1);
  const Tokens prefix = made_up(model, dice, options.prefix);
  std::vector<Request> requests;
  for (std::int64_t i = 0; i < options.requests; ++i) {
    Tokens tokens = prefix;
    const Tokens own = made_up(model, dice, options.suffix);
    tokens.insert(tokens.end(), own.begin(), own.end());
    tokens[prefix.size()] = static_cast<TokenId>(1000 + i);  // no two alike
    requests.push_back(greedy(std::move(tokens), options.predict));
  }

  EngineOptions apart;
  apart.share_prefixes = false;
  QUIRE_TRY(Engine sharing, setting.start());
  QUIRE_TRY(Engine separate, setting.start(apart));
  const Tokens other = made_up(model, dice, 256);
  for (Engine* engine : {&sharing, &separate}) {
    QUIRE_TRY(const Completion warm, answer(*engine, greedy(other, 8)));
    (void)warm;
  }

  std::vector<double> shared_ms, separate_ms, ratios;
  std::uint64_t shared_computed = 0, separate_computed = 0;
  bool same = true;
  for (int i = 0; i < options.repeats; ++i) {
    QUIRE_TRY(const Run with, all_at_once(sharing, requests));
    QUIRE_TRY(const Run without, one_after_the_other(separate, requests));
    shared_ms.push_back(with.ms);
    separate_ms.push_back(without.ms);
    ratios.push_back(without.ms / with.ms);
    shared_computed = std::max(shared_computed, with.computed);
    separate_computed = std::max(separate_computed, without.computed);
    same = same && with.answers == without.answers;
    say(fmt::format("sharing: {:.0f} ms shared, {:.0f} ms apart, {:.2f} times", with.ms, without.ms, ratios.back()));
  }

  // The last token of an answer is drawn and not computed.
  const std::int64_t once = options.prefix + options.requests * (options.suffix + options.predict - 1);
  const double ratio = median(ratios);
  Shown shown;
  shown.figures = {{"requests", options.requests},
                   {"prefix", options.prefix},
                   {"suffix", options.suffix},
                   {"predict", options.predict},
                   {"repeats", options.repeats},
                   {"shared_ms", median(shared_ms)},
                   {"separate_ms", median(separate_ms)},
                   {"ratio", ratio},
                   {"ratios", ratios},
                   {"shared_computed_tokens", shared_computed},
                   {"separate_computed_tokens", separate_computed},
                   {"computed_tokens_with_prefix_once", once},
                   {"same_tokens", same}};
  shown.require(fmt::format("at least {} times as fast", kBar), ratio >= kBar);
  shown.require("the prefix is computed once", shared_computed == static_cast<std::uint64_t>(once));
  shown.require("the same tokens", same);
  return shown;
}

}  // namespace

void add_sharing(CLI::App& app, Show& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("sharing", "Requests on one prefix against as many runs without sharing");
  sub->add_option("--requests", options->requests, "How many")->check(CLI::Range(1, 64))->capture_default_str();
  sub->add_option("--prefix", options->prefix, "Tokens that all begin with, in whole pages of 32")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--suffix", options->suffix, "Tokens of each one's own")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--predict", options->predict, "Tokens of an answer")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--repeats", options->repeats, "The median of so many")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->callback([&chosen, options] { chosen = [options](const Setting& setting) { return show(setting, *options); }; });
}

}  // namespace quire::bench
