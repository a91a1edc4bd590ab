// The cache changes no answer: greedy generation with and without it, token by token. And what lossy formats change.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/fail.h"
#include "lab/experiments/list.h"
#include "lab/perplexity.h"

namespace quire::lab {
namespace {

struct Setting {
  std::string type, policy;
  std::string name() const { return type + ", " + policy; }
};

CacheSettings cache_of(const Setting& setting) {
  CacheSettings cache;
  cache.type_k = cache.type_v = setting.type;
  cache.policy = setting.policy;
  return cache;
}

struct Compared {
  std::int64_t same = 0, tokens = 0;
};

// The truth for a window is the whole sequence, computed at once under the banded mask.
Result<Compared> naive_against_cached(Session& session, const Tokens& prompt, std::int64_t generated) {
  session.reset();
  QUIRE_TRY(auto logits, session.prefill(prompt));
  Tokens sequence = prompt;
  sequence.push_back(likeliest(logits));
  for (std::int64_t i = 1; i < generated; ++i) {
    QUIRE_TRY(logits, session.decode(sequence.back()));
    sequence.push_back(likeliest(logits));
  }
  Compared compared;
  for (std::size_t length = prompt.size(); length < sequence.size(); ++length) {
    session.reset();
    QUIRE_TRY(logits, session.prefill(std::span(sequence).first(length)));
    compared.same += likeliest(logits) == sequence[length];
    ++compared.tokens;
  }
  return compared;
}

struct Steps {
  Tokens tokens;
  std::vector<std::vector<float>> logits;
};

Result<Steps> follow(Session& session, const Tokens& prompt, const Tokens& forced, std::int64_t count) {
  session.reset();
  QUIRE_TRY(auto logits, session.prefill(prompt));
  Steps steps;
  for (std::int64_t i = 0; i < count; ++i) {
    steps.tokens.push_back(likeliest(logits));
    steps.logits.emplace_back(logits.begin(), logits.end());
    if (i + 1 == count) break;
    QUIRE_TRY(logits, session.decode(forced.empty() ? steps.tokens.back() : forced[static_cast<std::size_t>(i)]));
  }
  return steps;
}

struct Lossy {
  std::string type;
  std::vector<std::int64_t> first;              // [prompts], the first token that differs; -1 for none
  std::vector<std::vector<double>> divergence;  // [bins][samples]
};

constexpr std::int64_t kBin = 8;  // tokens that a point of the curve stands for

Result<Lossy> against_f16(Workbench& bench, const std::string& type, const std::vector<Tokens>& prompts,
                          const std::vector<Steps>& truths, double part) {
  QUIRE_TRY(Session session, bench.open(cache_of({type, "full"})));
  Lossy lossy{type, {}, {}};
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    const Steps& truth = truths[p];
    const std::int64_t count = std::ssize(truth.tokens);
    QUIRE_CHECK_OK(bench.at(part, fmt::format("{} beside f16", type)));
    QUIRE_TRY(const Steps steps, follow(session, prompts[p], truth.tokens, count));
    const auto differs = std::ranges::mismatch(truth.tokens, steps.tokens).in1;
    lossy.first.push_back(differs == truth.tokens.end() ? -1 : differs - truth.tokens.begin() + 1);
    lossy.divergence.resize(static_cast<std::size_t>((count + kBin - 1) / kBin));
    for (std::int64_t i = 0; i < count; ++i) {
      const auto step = static_cast<std::size_t>(i);
      lossy.divergence[static_cast<std::size_t>(i / kBin)].push_back(
          kl_divergence(truth.logits[step], steps.logits[step]));
    }
  }
  return lossy;
}

double mean(const std::vector<std::vector<double>>& bins) {
  double sum = 0, count = 0;
  for (const auto& bin : bins) {
    for (const double x : bin) sum += x, ++count;
  }
  return count > 0 ? sum / count : 0;
}

void tell_lossy(const std::vector<Lossy>& all, std::int64_t generated, Outcome& outcome) {
  Chart chart{
      "What lossy formats change, token by token",
      {"generated token", "", false},
      {"divergence from f16", "nats", true},
      {},
      {},
      fmt::format("Led along the tokens of f16. Medians over {} tokens and all prompts; bars from the 10th to the "
                  "90th percentile.",
                  kBin)};
  Table table{"First token that is not f16's, by prompt (- for none)", {"format", "mean divergence"}, {}};
  for (std::size_t p = 0; p < all.front().first.size(); ++p) table.columns.push_back(fmt::format("prompt {}", p + 1));
  for (const Lossy& lossy : all) {
    Series series{lossy.type, Style::line, {}};
    for (std::size_t b = 0; b < lossy.divergence.size(); ++b) {
      Point point = median_point(static_cast<double>(kBin) * (static_cast<double>(b) + 0.5), lossy.divergence[b]);
      if (point.y > 0) series.points.push_back(std::move(point));
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
    std::vector<std::string> row{lossy.type, fmt::format("{:.6f}", mean(lossy.divergence))};
    for (const std::int64_t f : lossy.first) row.push_back(f < 0 ? "-" : fmt::format("{}", f));
    table.rows.push_back(std::move(row));
    const auto changed = std::ranges::count_if(lossy.first, [](std::int64_t f) { return f > 0; });
    outcome.figure(fmt::format("divergence_{}", lossy.type), mean(lossy.divergence));
    outcome.figure(fmt::format("changed_{}", lossy.type), static_cast<double>(changed));
  }
  const auto by_mean = [](const Lossy& a, const Lossy& b) { return mean(a.divergence) < mean(b.divergence); };
  const auto worst = std::ranges::max_element(all, by_mean), best = std::ranges::min_element(all, by_mean);
  outcome.find(
      fmt::format("Of the formats beside f16, {} stays nearest (mean divergence {:.1e} nats over {} tokens a "
                  "prompt) and {} goes furthest ({:.1e}).",
                  best->type, mean(best->divergence), generated, worst->type, mean(worst->divergence)));
  outcome.charts.push_back(std::move(chart));
  outcome.tables.push_back(std::move(table));
}

Result<Outcome> run(Workbench& bench) {
  const std::int64_t length = std::min<std::int64_t>(80, bench.info().context * 5 / 8);
  const std::int64_t naive_generated = std::min<std::int64_t>(bench.choose(24, 8), bench.info().context - length);
  const std::int64_t window = length / 2;
  // More than one page each, so that what was encoded is read.
  std::vector<Setting> settings;
  for (const char* type : {"f16", "f32", "q8", "q4", "k2"}) settings.push_back({type, "full"});
  for (const char* type : {"f16", "q8"}) settings.push_back({type, fmt::format("window:{}", window)});
  settings.push_back({"f16", fmt::format("sinks:4+{}", window - 4)});
  const int prompts = bench.choose(3, 1);

  Outcome outcome;
  Table table{"Tokens that are the same with and without the cache", {"format and policy", "tokens", "the same"}, {}};
  Compared all;
  const double runs = static_cast<double>(settings.size()) * prompts;
  double done = 0;
  for (const Setting& setting : settings) {
    auto session = bench.open(cache_of(setting));
    if (!session.ok() && session.error().code == Errc::unsupported) {  // sinks with learned positions
      table.rows.push_back({setting.name(), "-", session.error().message});
      continue;
    }
    if (!session.ok()) return session.error();
    Compared compared;
    for (int p = 0; p < prompts; ++p, ++done) {
      QUIRE_CHECK_OK(bench.at(0.6 * done / runs, fmt::format("{}, prompt {}", setting.name(), p + 1)));
      QUIRE_TRY(const Compared one, naive_against_cached(*session, bench.prompt(700 * p, length), naive_generated));
      compared.same += one.same;
      compared.tokens += one.tokens;
    }
    table.rows.push_back({setting.name(), fmt::format("{}", compared.tokens), fmt::format("{}", compared.same)});
    all.same += compared.same;
    all.tokens += compared.tokens;
  }
  outcome.tables.push_back(std::move(table));
  outcome.find(
      fmt::format("{} of {} greedy tokens are the same with the cache and with everything computed again for each "
                  "token, over {} formats and policies; for a window the truth is the whole sequence under a "
                  "banded mask.",
                  all.same, all.tokens, settings.size()));
  outcome.check("the cache changes no token", all.same == all.tokens);

  // Longer: what the coarsest formats keep in 16 bits alone would hide them.
  const std::int64_t beginning = std::min<std::int64_t>(256, bench.info().context * 5 / 8);
  const std::int64_t generated = std::min<std::int64_t>(bench.choose(96, 24), bench.info().context - beginning);
  QUIRE_TRY(Session f16, bench.open());
  std::vector<Tokens> beginnings;
  std::vector<Steps> truths;
  for (int p = 0; p < prompts; ++p) {
    QUIRE_CHECK_OK(bench.at(0.6, "f16"));
    beginnings.push_back(bench.prompt(700 * p, beginning));
    QUIRE_TRY(Steps truth, follow(f16, beginnings.back(), {}, generated));
    truths.push_back(std::move(truth));
  }
  const auto types = bench.choose<std::vector<std::string>>({"f32", "bf16", "fp8", "q8", "q5", "q4", "k4", "q2", "k2"},
                                                            {"q8", "q4", "k2"});
  std::vector<Lossy> lossy;
  for (const std::string& type : types) {
    const double part = 0.6 + 0.4 * static_cast<double>(lossy.size()) / static_cast<double>(types.size());
    QUIRE_TRY(Lossy one, against_f16(bench, type, beginnings, truths, part));
    lossy.push_back(std::move(one));
  }
  tell_lossy(lossy, generated, outcome);
  return outcome;
}

}  // namespace

const Experiment kEquality{
    "equality",
    "Equality: the cache changes no answer",
    "Does cached generation say the same as computing everything again, and what do lossy formats "
    "change?",
    80,
    6,
    run};

}  // namespace quire::lab
