// Eviction: what is lost when only part of a prompt stays, and what is saved.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/fail.h"
#include "lab/experiments/eviction_rig.h"
#include "lab/experiments/list.h"
#include "lab/experiments/needle.h"
#include "lab/perplexity.h"

namespace quire::lab {
namespace {

constexpr std::array<std::string_view, 4> kPolicies{"h2o", "snapkv", "sinks", "window"};
constexpr std::array<int, 5> kShares{75, 50, 25, 20, 10};  // percent of the prompt; 20 is what H2O's authors show
constexpr int kDepths = 5;                                 // parts of the prompt that a fact may lie in

struct Policy {
  std::string_view kind;
  int share;
  std::string name() const { return fmt::format("{} {} %", kind, share); }
  std::string spelled(std::int64_t prompt) const {
    const std::int64_t kept = std::max<std::int64_t>(prompt * share / 100, 8);
    return kind == "sinks" ? fmt::format("sinks:4+{}", kept - 4) : fmt::format("{}:{}", kind, kept);
  }
};

std::vector<Policy> policies() {
  std::vector<Policy> all;
  for (const std::string_view kind : kPolicies) {
    for (const int share : kShares) all.push_back({kind, share});
  }
  return all;
}

struct Tally {
  std::array<std::int64_t, kDepths> recalled{};
  std::vector<double> losses, bytes, token_ms;
  std::int64_t all() const { return std::accumulate(recalled.begin(), recalled.end(), std::int64_t{0}); }
};

// The rig holds all of the prompt but its last token, which asks.
Result<bool> recalls(const Model& model, EvictionRig& rig, const EvictionRig::Kept& kept, const Needle& needle,
                     std::vector<double>& token_ms) {
  Tokens answer;
  TokenId last = needle.prompt.back();
  for (std::int64_t i = 0; i < kNeedleAnswer; ++i) {
    const auto start = Clock::now();
    QUIRE_TRY(const auto logits, rig.go_on({&last, 1}, kept));
    token_ms.push_back(milliseconds_since(start));
    last = likeliest(logits);
    answer.push_back(last);
    if (!needle.undecided(model.text(answer))) break;
  }
  return needle.answered_by(model.text(answer));
}

struct Counts {
  int asked = 0;
  std::array<std::int64_t, kDepths> known{};
  std::int64_t all() const { return std::accumulate(known.begin(), known.end(), std::int64_t{0}); }
};

// Facts that everything kept recalls are asked again under each policy.
Result<Counts> needles(Workbench& bench, EvictionRig& rig, const std::vector<Policy>& all, Tally& full,
                       std::vector<Tally>& tallies) {
  const int wanted = bench.choose(100, 5), most = bench.choose(160, 10);
  const std::int64_t length = std::min<std::int64_t>(bench.choose(512, 320), bench.info().context - kNeedleAnswer);
  Counts counts;
  while (counts.all() < wanted && counts.asked < most) {
    const double part = std::max(static_cast<double>(counts.all()) / wanted, static_cast<double>(counts.asked) / most);
    QUIRE_CHECK_OK(bench.at(0.25 + 0.75 * part, fmt::format("fact {} of {}", counts.all() + 1, wanted)));
    const Needle needle = plant_needle(bench, length, kDepths, counts.asked++);
    const std::int64_t prompt = std::ssize(needle.prompt) - 1;
    QUIRE_CHECK_OK(rig.prefill(std::span(needle.prompt).first(static_cast<std::size_t>(prompt))));
    QUIRE_TRY(const EvictionRig::Kept everything, rig.apply("full"));
    QUIRE_TRY(const bool known, recalls(*bench.model(), rig, everything, needle, full.token_ms));
    full.bytes.push_back(static_cast<double>(everything.bytes));
    if (!known) continue;
    ++counts.known[static_cast<std::size_t>(needle.part)];
    for (std::size_t i = 0; i < all.size(); ++i) {
      QUIRE_TRY(const EvictionRig::Kept kept, rig.apply(all[i].spelled(prompt)));
      QUIRE_TRY(const bool recalled, recalls(*bench.model(), rig, kept, needle, tallies[i].token_ms));
      tallies[i].recalled[static_cast<std::size_t>(needle.part)] += recalled;
      tallies[i].bytes.push_back(static_cast<double>(kept.bytes));
    }
  }
  return counts;
}

Result<void> losses(Workbench& bench, EvictionRig& rig, const std::vector<Policy>& all, Tally& full,
                    std::vector<Tally>& tallies) {
  const std::int64_t prompt = std::min<std::int64_t>(bench.choose(768, 256), bench.info().context / 2);
  const std::int64_t scored = std::min<std::int64_t>(128, bench.info().context / 4);
  const int texts = bench.choose(3, 1);
  for (int t = 0; t < texts; ++t) {
    const Tokens tokens = bench.prompt(1500 * t, prompt + scored);
    const auto rest = std::span(tokens).subspan(static_cast<std::size_t>(prompt));
    QUIRE_CHECK_OK(bench.at(0.25 * t / texts, "perplexity"));
    QUIRE_CHECK_OK(rig.prefill(std::span(tokens).first(static_cast<std::size_t>(prompt))));
    const auto measure = [&](const std::string& policy, Tally& tally) -> Result<void> {
      QUIRE_CHECK_OK(bench.at(0.25 * t / texts, policy));
      QUIRE_TRY(const EvictionRig::Kept kept, rig.apply(policy));
      QUIRE_TRY(const auto logits, rig.go_on(rest.first(rest.size() - 1), kept));
      const std::size_t vocabulary = logits.size() / (rest.size() - 1);
      for (std::size_t i = 0; i + 1 < rest.size(); ++i) {
        tally.losses.push_back(loss(logits.subspan(i * vocabulary, vocabulary), rest[i + 1]));
      }
      return {};
    };
    QUIRE_CHECK_OK(measure("full", full));
    for (std::size_t i = 0; i < all.size(); ++i) QUIRE_CHECK_OK(measure(all[i].spelled(prompt), tallies[i]));
  }
  return {};
}

// A share of so many, with the standard error that counting has.
Point share_point(double x, std::int64_t part, std::int64_t whole) {
  const double p = static_cast<double>(part) / static_cast<double>(whole);
  const double error = std::sqrt(p * (1 - p) / static_cast<double>(whole));
  return {x, 100 * p, 100 * std::max(p - error, 0.0), 100 * std::min(p + error, 1.0)};
}

void draw(const std::vector<Policy>& all, const Tally& full, const std::vector<Tally>& tallies, const Counts& counts,
          Outcome& outcome) {
  const Axis kept{"kept", "percent of the prompt", false};
  Chart perplexities{"Perplexity of what follows",
                     kept,
                     {"perplexity", "", true},
                     {},
                     {},
                     "Bars: one standard error. Dashed: everything kept."};
  Chart recall{"Facts recalled",
               kept,
               {"recalled", "percent", false},
               {},
               {},
               fmt::format("Of the {} facts (of {} asked) that everything kept recalls. Bars: one standard error.",
                           counts.all(), counts.asked)};
  const double whole = perplexity_point(0, full.losses).y;
  perplexities.series.push_back(
      {"full", Style::reference, {exact_point(kShares.back(), whole), exact_point(kShares.front(), whole)}});
  const bool knows = counts.all() > 0;
  const auto median = [](const std::vector<double>& samples) { return median_point(0, samples).y; };
  Table table{"Policies side by side", {"policy", "perplexity", "recalled", "MiB held", "tokens per second"}, {}};
  const auto row = [&](std::string name, const Tally& t, std::int64_t recalled) {
    const bool ran = !t.bytes.empty();
    table.rows.push_back({std::move(name), fmt::format("{:.2f}", perplexity_point(0, t.losses).y),
                          knows ? fmt::format("{}", recalled) : "-",
                          ran ? fmt::format("{:.2f}", median(t.bytes) / (1 << 20)) : "-",
                          ran ? fmt::format("{:.1f}", 1000 / median(t.token_ms)) : "-"});
  };
  row("full", full, counts.all());
  HeatMap map{"Facts recalled, by where they lie",
              {"part of the prompt", "", false},
              {"policy", "", false},
              "Percent of those that everything kept recalls; the question stands at the end.",
              {},
              {},
              {}};
  for (int d = 0; d < kDepths; ++d)
    map.columns.push_back(fmt::format("{}-{} %", 100 * d / kDepths, 100 * (d + 1) / kDepths));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tally& t = tallies[i];
    if (i % kShares.size() == 0) {
      perplexities.series.push_back({std::string(all[i].kind), Style::line, {}});
      recall.series.push_back({std::string(all[i].kind), Style::line, {}});
    }
    perplexities.series.back().points.push_back(perplexity_point(all[i].share, t.losses));
    row(all[i].name(), t, t.all());
    if (!knows) continue;
    recall.series.back().points.push_back(share_point(all[i].share, t.all(), counts.all()));
    std::vector<double> cells;
    for (std::size_t d = 0; d < kDepths; ++d) {
      cells.push_back(counts.known[d] > 0
                          ? 100.0 * static_cast<double>(t.recalled[d]) / static_cast<double>(counts.known[d])
                          : std::nan(""));
    }
    map.rows.push_back(all[i].name());
    map.values.push_back(std::move(cells));
    outcome.figure(fmt::format("recall_{}_{}", all[i].kind, all[i].share),
                   static_cast<double>(t.all()) / static_cast<double>(counts.all()));
  }
  outcome.charts.push_back(std::move(perplexities));
  if (knows) {
    outcome.charts.push_back(std::move(recall));
    outcome.heat_maps.push_back(std::move(map));
  }
  outcome.tables.push_back(std::move(table));
}

Result<Outcome> run(Workbench& bench) {
  QUIRE_TRY(const std::unique_ptr<EvictionRig> rig, EvictionRig::create(bench));
  const std::vector<Policy> all = policies();
  Tally full;
  std::vector<Tally> tallies(all.size());
  QUIRE_CHECK_OK(losses(bench, *rig, all, full, tallies));
  QUIRE_TRY(const Counts counts, needles(bench, *rig, all, full, tallies));
  Outcome outcome;
  outcome.figure("facts_asked", counts.asked);
  outcome.figure("facts_known", static_cast<double>(counts.all()));
  draw(all, full, tallies, counts, outcome);
  const double whole = perplexity_point(0, full.losses).y;
  outcome.figure("perplexity_full", whole);
  for (std::size_t i = 0; i < all.size(); ++i) {
    outcome.figure(fmt::format("perplexity_{}_{}", all[i].kind, all[i].share),
                   perplexity_point(0, tallies[i].losses).y);
    if (all[i].share != 20) continue;
    std::string sentence = fmt::format("{} with 20 % of the prompt: perplexity {:.2f} where everything gives {:.2f}",
                                       all[i].kind, perplexity_point(0, tallies[i].losses).y, whole);
    if (counts.all() > 0) sentence += fmt::format("; {} of {} facts recalled", tallies[i].all(), counts.all());
    outcome.find(sentence + ".");
  }
  if (counts.all() == 0)
    outcome.find(fmt::format("This model recalls none of {} facts even with everything kept: nothing to compare.",
                             counts.asked));
  return outcome;
}

}  // namespace

const Experiment kEvict{"evict",
                        "Eviction: keeping part of a prompt",
                        "When 75 to 10 % of a prompt stay, what is lost and what is saved?",
                        100,
                        7,
                        run};

}  // namespace quire::lab
