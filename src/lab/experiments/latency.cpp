// Two phases, two latencies: time to the first token and between tokens; and what a long prompt does to those who are
// already being answered.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>

#include "core/fail.h"
#include "core/statistics.h"
#include "lab/experiments/list.h"

namespace quire::lab {
namespace {

struct Spread {
  double p50 = 0, p90 = 0, p99 = 0;
};

Spread spread(std::vector<double> samples) {
  std::ranges::sort(samples);
  return {percentile(samples, 0.5), percentile(samples, 0.9), percentile(samples, 0.99)};
}

std::vector<std::string> row(std::string name, const std::vector<double>& ms) {
  const Spread s = spread(ms);
  return {std::move(name), fmt::format("{}", ms.size()), fmt::format("{:.1f}", s.p50), fmt::format("{:.1f}", s.p90),
          fmt::format("{:.1f}", s.p99)};
}

Result<void> by_phase(Workbench& bench, Outcome& outcome) {
  const std::int64_t generated = bench.choose(48, 16), repeats = bench.choose(5, 3);
  const auto lengths = bench.within_context(
      bench.choose<std::vector<std::int64_t>>({32, 128, 512, 1024, 2048}, {32, 128, 512}), generated);
  if (lengths.empty()) return fail(Errc::unsupported, "the model's context of {} is too short", bench.info().context);
  QUIRE_TRY(Session session, bench.open());
  QUIRE_CHECK_OK(session.prefill(bench.prompt(0, lengths.back())));  // weights are packed, memory is touched
  Series first{"first token (prefill)", Style::line, {}}, next{"each token after it (decode)", Style::line, {}};
  Table table{"Milliseconds by phase", {"", "samples", "p50", "p90", "p99"}, {}};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const Tokens prompt = bench.prompt(0, lengths[i]);
    std::vector<double> to_first, between;
    for (std::int64_t r = 0; r < repeats; ++r) {
      QUIRE_CHECK_OK(bench.at(0.5 * static_cast<double>(i) / static_cast<double>(lengths.size()),
                              fmt::format("prompt of {} tokens, {} of {}", lengths[i], r + 1, repeats)));
      session.reset();
      auto start = Clock::now();
      QUIRE_TRY(auto logits, session.prefill(prompt));
      to_first.push_back(milliseconds_since(start));
      for (std::int64_t t = 0; t < generated; ++t) {
        const TokenId token = likeliest(logits);
        start = Clock::now();
        QUIRE_TRY(logits, session.decode(token));
        between.push_back(milliseconds_since(start));
      }
    }
    const auto x = static_cast<double>(lengths[i]);
    first.points.push_back(median_point(x, to_first));
    next.points.push_back(median_point(x, between));
    table.rows.push_back(row(fmt::format("first token, prompt of {}", lengths[i]), to_first));
    table.rows.push_back(row(fmt::format("later tokens, prompt of {}", lengths[i]), between));
    outcome.figure(fmt::format("first_token_ms_{}", lengths[i]), first.points.back().y);
    outcome.figure(fmt::format("token_ms_{}", lengths[i]), next.points.back().y);
  }
  const double longer = static_cast<double>(lengths.back()) / static_cast<double>(lengths.front());
  outcome.find(
      fmt::format("A prompt {:.0f} times as long ({} instead of {} tokens) takes {:.0f} times as long to the first "
                  "token ({:.0f} instead "
                  "of {:.0f} ms), but a later token only {:.1f} times ({:.1f} instead of {:.1f} ms): the first phase "
                  "computes the whole "
                  "prompt, the second one token beside what is cached.",
                  longer, lengths.back(), lengths.front(), first.points.back().y / first.points.front().y,
                  first.points.back().y, first.points.front().y, next.points.back().y / next.points.front().y,
                  next.points.back().y, next.points.front().y));
  outcome.charts.push_back(
      {"Time to the first token, and between tokens",
       {"prompt", "tokens", true},
       {"time", "ms", true},
       {},
       {std::move(first), std::move(next)},
       fmt::format("One sequence, {} times, {} tokens each; medians, bars from the 10th to the 90th "
                   "percentile.",
                   repeats, generated)});
  outcome.tables.push_back(std::move(table));
  return {};
}

// When the engine had something for a stream: with one token a step, when each token came.
class Watched {
 public:
  explicit Watched(Stream stream) : stream_(std::move(stream)) {
    // The engine's thread may still call when this is gone.
    stream_.notify([log = log_] {
      const std::lock_guard lock(log->mutex);
      log->seen.push_back(Clock::now());
    });
  }
  std::vector<Clock::time_point> times() const {
    const std::lock_guard lock(log_->mutex);
    return {log_->seen.begin() + 1, log_->seen.end()};  // the first is notify()'s own
  }
  // What was said before notify() was not heard: of a short answer by a fast model, perhaps all of it.
  bool has(std::size_t count) {
    while (stream_.try_next()) {
    }
    return stream_.ended() || times().size() >= count;
  }

 private:
  struct Log {
    std::mutex mutex;
    std::vector<Clock::time_point> seen;
  };
  std::shared_ptr<Log> log_ = std::make_shared<Log>();
  Stream stream_;
};

std::vector<double> gaps(const std::vector<Watched>& readers, Clock::time_point from, Clock::time_point to) {
  std::vector<double> all;
  for (const Watched& reader : readers) {
    const auto seen = reader.times();
    for (std::size_t i = 1; i < seen.size(); ++i) {
      if (seen[i] < from || seen[i - 1] > to) continue;
      all.push_back(milliseconds(seen[i - 1], seen[i]));
    }
  }
  return all;
}

struct Stall {
  std::vector<double> before, during;
  double first_token_ms = 0;  // of the long prompt
};

Result<Stall> stall(Workbench& bench, bool chunked, std::int64_t long_prompt) {
  EngineOptions options;
  if (!chunked) {
    options.max_batch = long_prompt + 64;
    options.prefill_budget_ms = 1e9;
  }
  QUIRE_TRY(Engine engine, bench.start(options));
  constexpr int kReaders = 4;
  const std::int64_t warm_up = bench.choose(24, 12), prompt = std::min<std::int64_t>(64, bench.info().context / 4);
  const std::int64_t room = std::min<std::int64_t>(240, bench.info().context - prompt);
  std::vector<Watched> readers;
  for (int i = 0; i < kReaders; ++i) {
    QUIRE_TRY(Stream stream, engine.submit(greedy_request(bench.prompt(300 * (i + 1), prompt), room)));
    readers.emplace_back(std::move(stream));
  }
  const auto all_have = [&](std::size_t count) {
    return std::ranges::all_of(readers, [&](Watched& r) { return r.has(count); });
  };
  const auto wait_for = [&](std::size_t count) -> Result<void> {
    while (!all_have(count)) {
      QUIRE_CHECK_OK(
          bench.at(chunked ? 0.55 : 0.75, chunked ? "a long prompt, in chunks" : "a long prompt, in one piece"));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return {};
  };
  QUIRE_CHECK_OK(wait_for(2));
  const auto start = Clock::now();
  QUIRE_CHECK_OK(wait_for(static_cast<std::size_t>(warm_up)));
  Stall result;
  const auto arrived = Clock::now();
  QUIRE_TRY(Stream late, engine.submit(greedy_request(bench.prompt(5000, long_prompt), 1)));
  QUIRE_CHECK_OK(late.wait());
  const auto answered = Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the step after it, for the last gap
  result.first_token_ms = milliseconds(arrived, answered);
  result.before = gaps(readers, start, arrived - std::chrono::milliseconds(50));
  result.during = gaps(readers, arrived, answered);
  return result;
}

Result<void> with_and_without_chunks(Workbench& bench, Outcome& outcome) {
  const std::int64_t long_prompt = std::min<std::int64_t>(bench.choose(2048, 1024), bench.info().context - 2);
  QUIRE_TRY(const Stall chunked, stall(bench, true, long_prompt));
  QUIRE_TRY(const Stall whole, stall(bench, false, long_prompt));
  outcome.tables.push_back(
      {fmt::format("Four answers under way, and a prompt of {} tokens arrives: milliseconds between "
                   "their tokens",
                   long_prompt),
       {"", "samples", "p50", "p90", "p99"},
       {row("before it arrives", chunked.before), row("meanwhile, in chunks", chunked.during),
        row("meanwhile, in one piece", whole.during)}});
  Chart chart{"Waiting between tokens while a long prompt is read",
              {"of all gaps between tokens", "", false},
              {"time between tokens", "ms", true},
              {"median", "90th percentile", "99th percentile", "longest"},
              {},
              "Four answers under way. Percentiles of all gaps: the bars are the spread."};
  for (const auto& part : {std::pair{"before", &chunked.before}, std::pair{"in chunks", &chunked.during},
                           std::pair{"in one piece", &whole.during}}) {
    const Spread s = spread(*part.second);
    const double most = part.second->empty() ? 0 : *std::ranges::max_element(*part.second);
    chart.series.push_back(
        {part.first,
         Style::bars,
         {exact_point(0, s.p50), exact_point(1, s.p90), exact_point(2, s.p99), exact_point(3, most)}});
  }
  outcome.charts.push_back(std::move(chart));
  const double in_chunks = spread(chunked.during).p99, at_once = spread(whole.during).p99;
  outcome.find(fmt::format(
      "While a prompt of {} tokens is read, those being answered wait {:.0f} ms between tokens at the 99th percentile "
      "in chunks "
      "and {:.0f} ms where it is computed in one piece (before: {:.0f} ms at the median). The newcomer's first token "
      "comes "
      "after {:.0f} ms in chunks and {:.0f} ms in one piece: that is the price.",
      long_prompt, in_chunks, at_once, spread(chunked.before).p50, chunked.first_token_ms, whole.first_token_ms));
  outcome.figure("stall_p99_ms_chunked", in_chunks);
  outcome.figure("stall_p99_ms_whole", at_once);
  outcome.figure("long_first_token_ms_chunked", chunked.first_token_ms);
  outcome.figure("long_first_token_ms_whole", whole.first_token_ms);
  return {};
}

Result<Outcome> run(Workbench& bench) {
  Outcome outcome;
  QUIRE_CHECK_OK(by_phase(bench, outcome));
  QUIRE_CHECK_OK(with_and_without_chunks(bench, outcome));
  return outcome;
}

}  // namespace

const Experiment kLatency{"latency",
                          "Latency: two phases",
                          "How long until the first token, how long between tokens, and who waits for whom?",
                          30,
                          7,
                          run};

}  // namespace quire::lab
