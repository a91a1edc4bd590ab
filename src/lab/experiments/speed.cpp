// Naive against cached: what a token costs after prompts of growing length.
#include <fmt/format.h>

#include <algorithm>

#include "core/fail.h"
#include "lab/experiments/list.h"

namespace quire::lab {
namespace {

// About as fast as people read; slower than that, one waits for every word.
constexpr double kReadingSpeed = 5;  // tokens per second
constexpr double kBar = 20;          // times as fast, at kBarPrompt tokens
constexpr std::int64_t kBarPrompt = 1024;

struct Measured {
  std::int64_t prompt;
  std::vector<double> naive_ms, cached_ms;  // of each token after the first
};

// What is timed is checked: both ways must say the same.
Result<Measured> measure(Session& session, const Tokens& prompt, std::int64_t naive_tokens,
                         std::int64_t cached_tokens) {
  Measured m{std::ssize(prompt), {}, {}};
  Tokens sequence = prompt;
  session.reset();
  QUIRE_TRY(auto logits, session.prefill(prompt));
  sequence.push_back(likeliest(logits));
  for (std::int64_t i = 0; i < cached_tokens; ++i) {
    const auto start = Clock::now();
    QUIRE_TRY(logits, session.decode(sequence.back()));
    m.cached_ms.push_back(milliseconds_since(start));
    sequence.push_back(likeliest(logits));
  }
  for (std::int64_t i = 0; i < naive_tokens; ++i) {
    const auto length = static_cast<std::size_t>(m.prompt + 1 + i);
    session.reset();
    const auto start = Clock::now();
    QUIRE_TRY(logits, session.prefill(std::span(sequence).first(length)));
    m.naive_ms.push_back(milliseconds_since(start));
    if (likeliest(logits) != sequence[length]) {
      return fail(Errc::unsupported, "with and without the cache, token {} after a prompt of {} differs: a bug", i + 1,
                  m.prompt);
    }
  }
  return m;
}

Point per_second(double prompt, const std::vector<double>& ms) {
  const Point time = median_point(prompt, ms);
  return {prompt, 1000 / time.y, 1000 / time.high, 1000 / time.low};
}

Point ratio(const Measured& m) {
  const Point naive = median_point(0, m.naive_ms), cached = median_point(0, m.cached_ms);
  return {static_cast<double>(m.prompt), naive.y / cached.y, naive.low / cached.high, naive.high / cached.low};
}

void tell(const std::vector<Measured>& all, Outcome& outcome) {
  const Measured &first = all.front(), &last = all.back();
  outcome.find(fmt::format(
      "With the cache a token takes {:.1f} ms after a prompt of {} token{} and {:.1f} ms after one of {}; "
      "without it {:.1f} "
      "and {:.0f} ms: everything before the token is computed again.",
      median_point(0, first.cached_ms).y, first.prompt, first.prompt == 1 ? "" : "s", median_point(0, last.cached_ms).y,
      last.prompt, median_point(0, first.naive_ms).y, median_point(0, last.naive_ms).y));
  // From where on every longer prompt was faster with the cache, error bars apart.
  std::int64_t pays = -1, required = -1;
  for (auto m = all.rbegin(); m != all.rend() && ratio(*m).low > 1; ++m) pays = m->prompt;
  for (auto m = all.rbegin(); m != all.rend() && 1000 / median_point(0, m->naive_ms).y < kReadingSpeed; ++m) {
    required = m->prompt;
  }
  outcome.find(pays < 0 ? "At none of these lengths was the cache clearly faster."
                        : fmt::format("The cache starts to pay at a prompt of {} token{}: from there on its bar lies "
                                      "clear of the naive one (strategy long:{} would begin there).",
                                      pays, pays == 1 ? "" : "s", pays));
  outcome.find(
      required < 0
          ? fmt::format("Even the longest prompt left naive generation above {:.0f} tokens a second.", kReadingSpeed)
          : fmt::format("From a prompt of {} tokens on, naive generation falls below {:.0f} tokens a second, about "
                        "the speed of reading: there the cache is no optimisation any more, but required.",
                        required, kReadingSpeed));
  // Below a page both take about as long, and which is ahead is chance.
  bool grows = true;
  double before = 0;
  for (const Measured& m : all) {
    if (m.prompt < 32) continue;
    grows = grows && ratio(m).high > before;
    before = ratio(m).y;
  }
  outcome.check("the ratio grows with the prompt, from 32 tokens on", grows);
  for (const Measured& m : all) {
    outcome.figure(fmt::format("ratio_{}", m.prompt), ratio(m).y);
    if (m.prompt != kBarPrompt) continue;
    outcome.find(fmt::format("After {} tokens the cache is {:.0f} times as fast.", m.prompt, ratio(m).y));
    outcome.check(fmt::format("more than {:.0f} times as fast at a prompt of {} tokens", kBar, kBarPrompt),
                  ratio(m).y > kBar);
  }
}

Result<Outcome> run(Workbench& bench) {
  const std::int64_t naive_tokens = bench.choose(3, 2), cached_tokens = bench.choose(48, 16);
  const auto lengths =
      bench.within_context(bench.choose<std::vector<std::int64_t>>({1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048},
                                                                   {1, 4, 16, 32, 128, 512, 1024}),
                           cached_tokens + 1);
  if (lengths.empty()) return fail(Errc::unsupported, "the model's context of {} is too short", bench.info().context);
  QUIRE_TRY(Session session, bench.open());
  QUIRE_CHECK_OK(measure(session, bench.prompt(0, lengths.front()), 1, 2));  // weights are packed, memory is touched
  // Time grows with the square of the length, nearly.
  double whole = 0, done = 0;
  for (const std::int64_t n : lengths) whole += static_cast<double>(n + 50);
  std::vector<Measured> all;
  for (const std::int64_t n : lengths) {
    QUIRE_CHECK_OK(bench.at(done / whole, fmt::format("prompt of {} tokens", n)));
    QUIRE_TRY(Measured m, measure(session, bench.prompt(0, n), naive_tokens, cached_tokens));
    all.push_back(std::move(m));
    done += static_cast<double>(n + 50);
  }

  Outcome outcome;
  Series naive{"naive: everything again", Style::line, {}}, cached{"cached", Style::line, {}};
  Series times{"speed, cached ÷ naive", Style::line, {}};
  Table table{"Milliseconds per generated token after the first", {"prompt", "naive", "cached", "ratio"}, {}};
  for (const Measured& m : all) {
    const auto x = static_cast<double>(m.prompt);
    naive.points.push_back(per_second(x, m.naive_ms));
    cached.points.push_back(per_second(x, m.cached_ms));
    times.points.push_back(ratio(m));
    table.rows.push_back({fmt::format("{}", m.prompt), fmt::format("{:.2f}", median_point(0, m.naive_ms).y),
                          fmt::format("{:.2f}", median_point(0, m.cached_ms).y), fmt::format("{:.1f}", ratio(m).y)});
  }
  const Axis prompt{"prompt", "tokens", true};
  const std::string note = fmt::format(
      "Greedy, one sequence. Medians over {} tokens (naive) and {} (cached) after the first; bars from the 10th to the "
      "90th "
      "percentile.",
      naive_tokens, cached_tokens);
  outcome.charts.push_back(
      {"Speed of generation", prompt, {"speed", "tokens per second", true}, {}, {naive, cached}, note});
  outcome.charts.push_back(
      {"How many times as fast the cache is", prompt, {"naive time ÷ cached time", "times", true}, {}, {times}, note});
  outcome.tables.push_back(std::move(table));
  tell(all, outcome);
  return outcome;
}

}  // namespace

const Experiment kSpeed{"speed",
                        "Speed: naive against cached",
                        "How many tokens per second with and without the cache, as the prompt grows?",
                        20,
                        5,
                        run};

}  // namespace quire::lab
