// The cache broken on purpose: one key overwritten, and every write one slot late.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>

#include "core/fail.h"
#include "engine/cache_faults.h"
#include "lab/experiments/list.h"

namespace quire::lab {
namespace {

constexpr int kPrompts = 10, kShown = 2;
constexpr std::int64_t kBefore = 8;  // tokens that are generated before the cache breaks
constexpr int kBar = 8;              // of the ten prompts must differ after the shift

enum class Fault { none, key, shift };

// Normal numbers of deviation 1, the same everywhere: Box and Muller's way.
std::vector<float> noise(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto uniform = [&] { return (static_cast<double>(random() >> 11) + 0.5) / 9007199254740992.0; };
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform())));
  }
  return values;
}

double length_of(const std::vector<float>& v) {
  return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
}

struct Damage {
  double key_length = 0, noise_length = 0;
};

struct Step {
  TokenId chosen;
  std::vector<float> logits;
};

// What the session says along `forced`, or along what it says itself where that is empty.
Result<std::vector<Step>> follow(Session& session, TokenId last, const Tokens& forced, std::int64_t count) {
  std::vector<Step> steps;
  for (std::int64_t i = 0; i < count; ++i) {
    QUIRE_TRY(const auto logits, session.decode(last));
    steps.push_back({likeliest(logits), {logits.begin(), logits.end()}});
    last = forced.empty() ? steps.back().chosen : forced[static_cast<std::size_t>(i)];
  }
  return steps;
}

Tokens tokens_of(const std::vector<Step>& steps) {
  Tokens tokens;
  for (const Step& step : steps) tokens.push_back(step.chosen);
  return tokens;
}

// A new session that has read the prompt and said a few tokens, and then the fault.
struct Broken {
  Session session;
  Tokens before;  // what it said until then
};
Result<Broken> broken(const Workbench& bench, const Tokens& prompt, std::int64_t generated, Fault fault,
                      std::uint64_t seed, Damage& damage) {
  CacheSettings flat;
  flat.layout = "flat";
  QUIRE_TRY(Session session, bench.open(flat, std::ssize(prompt) + kBefore + generated + 1));
  QUIRE_CHECK_OK(session.prefill(std::span(prompt).first(prompt.size() - 1)));
  QUIRE_TRY(const std::vector<Step> said, follow(session, prompt.back(), {}, kBefore));
  CacheFaults faults(session);
  if (fault == Fault::shift) QUIRE_CHECK_OK(faults.shift_writes(1));
  if (fault == Fault::key) {
    const CachePlace place = bench.broken_key();
    QUIRE_TRY(const std::vector<float> key, faults.read_key(place.layer, place.head, place.position));
    const std::vector<float> random = noise(key.size(), seed);
    damage = {length_of(key), length_of(random)};
    QUIRE_CHECK_OK(faults.overwrite_key(place.layer, place.head, place.position, random));
  }
  return Broken{std::move(session), tokens_of(said)};
}

// Root mean square of the difference, in deviations of the clean logits: 1 is as far as two unrelated tokens' are.
double distance(const std::vector<float>& clean, const std::vector<float>& other) {
  const auto n = static_cast<double>(clean.size());
  const double mean = std::accumulate(clean.begin(), clean.end(), 0.0) / n;
  double spread = 0, apart = 0;
  for (std::size_t i = 0; i < clean.size(); ++i) {
    const double a = clean[i], d = a - static_cast<double>(other[i]);
    spread += (a - mean) * (a - mean);
    apart += d * d;
  }
  return spread > 0 ? std::sqrt(apart / spread) : 0;
}

// Index of the first token that differs, or the length where none does.
std::int64_t first_difference(const Tokens& a, const Tokens& b) { return std::ranges::mismatch(a, b).in1 - a.begin(); }

struct Runs {
  std::string name;
  std::vector<std::int64_t> first;             // [prompts]
  std::vector<std::vector<double>> distances;  // [steps][prompts]
  std::int64_t changed(std::int64_t generated) const {
    return std::ranges::count_if(first, [&](std::int64_t f) { return f < generated; });
  }
};

Texts::Version version(const Model& model, std::string name, const Tokens& clean, const Tokens& tokens) {
  const auto same = static_cast<std::size_t>(first_difference(clean, tokens));
  return {std::move(name), model.text(std::span(tokens).first(same)), model.text(std::span(tokens).subspan(same))};
}

std::string in_words(const Runs& runs, std::int64_t generated) {
  const std::int64_t changed = runs.changed(generated);
  std::string text = fmt::format("With {}, {} of {} texts changed", runs.name, changed, runs.first.size());
  if (changed == 0) return text + fmt::format(" within {} tokens.", generated);
  std::vector<double> when;
  for (const std::int64_t f : runs.first) {
    if (f < generated) when.push_back(static_cast<double>(f) + 1);
  }
  const Point p = median_point(0, when);
  return text +
         fmt::format(", at the median with token {:.0f} after the fault ({:.0f} to {:.0f}).", p.y, p.low, p.high);
}

Result<Outcome> run(Workbench& bench) {
  const std::int64_t generated = bench.choose(64, 24);
  const std::int64_t length = std::min<std::int64_t>(120, bench.info().context - kBefore - generated - 2);
  if (length < 16) return fail(Errc::unsupported, "the model's context of {} is too short", bench.info().context);
  const CachePlace place = bench.broken_key();
  if (place.layer >= bench.info().layers || place.head >= bench.info().kv_heads || place.position >= length) {
    return fail(Errc::invalid_argument,
                "no key at layer {}, head {}, position {}; expected below {} layers, {} heads and {} positions",
                place.layer, place.head, place.position, bench.info().layers, bench.info().kv_heads, length);
  }

  std::array<Runs, 3> runs{Runs{"no fault, run again", {}, {}}, Runs{"one key overwritten", {}, {}},
                           Runs{"writes one slot late", {}, {}}};
  for (Runs& r : runs) r.distances.resize(static_cast<std::size_t>(generated));
  Outcome outcome;
  std::vector<Damage> damages;
  bool same_as_naive = true, same_before = true;
  for (int i = 0; i < kPrompts; ++i) {
    QUIRE_CHECK_OK(bench.at(static_cast<double>(i) / kPrompts, fmt::format("prompt {} of {}", i + 1, kPrompts)));
    const Tokens prompt = bench.prompt(400 * i, length);
    const auto seed = static_cast<std::uint64_t>(i) + 1;
    Damage damage;
    Tokens before;  // what the first of this prompt's runs said before its fault
    const auto go = [&](Fault fault, const Tokens& forced) -> Result<std::vector<Step>> {
      QUIRE_TRY(Broken run, broken(bench, prompt, generated, fault, seed, damage));
      if (before.empty()) before = run.before;
      same_before = same_before && run.before == before;
      return follow(run.session, run.before.back(), forced, generated);
    };
    QUIRE_TRY(const std::vector<Step> clean, go(Fault::none, {}));
    const Tokens truth = tokens_of(clean);
    constexpr std::array kFaults{Fault::none, Fault::key, Fault::shift};
    for (std::size_t f = 0; f < kFaults.size(); ++f) {
      QUIRE_TRY(const std::vector<Step> steps, go(kFaults[f], truth));
      runs[f].first.push_back(first_difference(truth, tokens_of(steps)));
      for (std::size_t s = 0; s < steps.size(); ++s) {
        runs[f].distances[s].push_back(distance(clean[s].logits, steps[s].logits));
      }
    }
    damages.push_back(damage);
    if (i >= kShown) continue;
    // The truth of the truth: everything computed again, in pages, without a cache.
    QUIRE_TRY(Session naive, bench.open());
    Tokens sequence = prompt;
    sequence.insert(sequence.end(), before.begin(), before.end());
    for (std::size_t s = 0; s < std::min<std::size_t>(truth.size(), 8); ++s) {
      naive.reset();
      QUIRE_TRY(const auto logits, naive.prefill(sequence));
      same_as_naive = same_as_naive && likeliest(logits) == truth[s];
      sequence.push_back(truth[s]);
    }
    QUIRE_TRY(const std::vector<Step> key, go(Fault::key, {}));
    QUIRE_TRY(const std::vector<Step> shift, go(Fault::shift, {}));
    const Model& model = *bench.model();
    outcome.texts.push_back(
        {fmt::format("Prompt {}", i + 1),
         model.text(std::span(sequence).subspan(prompt.size() - std::min<std::size_t>(prompt.size(), 32),
                                                std::min<std::size_t>(prompt.size(), 32) + before.size())),
         {version(model, "without a fault", truth, truth), version(model, runs[1].name, truth, tokens_of(key)),
          version(model, runs[2].name, truth, tokens_of(shift))}});
  }

  Chart chart{
      "How far the logits are from those without the fault",
      {"token after the fault", "", false},
      {"distance", "deviations of the logits", false},
      {},
      {},
      fmt::format("Every run is led along the tokens of the run without a fault. Medians over {} prompts, bars from "
                  "the 10th to the 90th percentile.",
                  kPrompts)};
  Table table{"First token that differs, by prompt (- for none)", {"prompt", runs[1].name, runs[2].name}, {}};
  for (const Runs& r : runs) {
    Series series{r.name, Style::line, {}};
    for (std::size_t s = 0; s < r.distances.size(); ++s) {
      series.points.push_back(median_point(static_cast<double>(s) + 1, r.distances[s]));
    }
    chart.series.push_back(std::move(series));
  }
  for (std::size_t i = 0; i < kPrompts; ++i) {
    const auto shown = [&](const Runs& r) { return r.first[i] < generated ? fmt::format("{}", r.first[i] + 1) : "-"; };
    table.rows.push_back({fmt::format("{}", i + 1), shown(runs[1]), shown(runs[2])});
  }
  outcome.charts.push_back(std::move(chart));
  outcome.tables.push_back(std::move(table));

  outcome.find(
      fmt::format("{} prompts of {} tokens and {} generated after each lie in the cache when it breaks; {} tokens "
                  "follow, greedily. The key "
                  "is that of layer {}, head {}, position {}, overwritten with normal noise (its length was {:.1f} "
                  "in the first prompt, the noise's is {:.1f}).",
                  kPrompts, length, kBefore, generated, place.layer, place.head, place.position,
                  damages.front().key_length, damages.front().noise_length));
  outcome.find(in_words(runs[1], generated));
  outcome.find(in_words(runs[2], generated));
  const auto mean_distance = [&](const Runs& r) {
    double sum = 0;
    for (const auto& step : r.distances) sum += std::accumulate(step.begin(), step.end(), 0.0);
    return sum / static_cast<double>(kPrompts * generated);
  };
  outcome.find(fmt::format(
      "One key of {} moves the logits by {:.4f} of their deviation on average, the shift by {:.2f}. A key is a "
      "reference "
      "that some later queries consult and most do not; it is never computed again, so whatever it changed stays in "
      "all "
      "that follows. A slot carries no position of its own: the shift leaves a hole that every later query still sees, "
      "and "
      "hides each new token from itself.",
      (length + kBefore - 1) * bench.info().layers * bench.info().kv_heads, mean_distance(runs[1]),
      mean_distance(runs[2])));
  outcome.figure("changed_by_key", static_cast<double>(runs[1].changed(generated)));
  outcome.figure("changed_by_shift", static_cast<double>(runs[2].changed(generated)));
  outcome.figure("distance_by_key", mean_distance(runs[1]));
  outcome.figure("distance_by_shift", mean_distance(runs[2]));
  outcome.check("before the fault all runs say the same", same_before);
  outcome.check("without a fault every run is the same to the last bit",
                runs[0].changed(generated) == 0 && mean_distance(runs[0]) == 0 && same_as_naive);
  outcome.check(fmt::format("the shift changes at least {} of {} texts", kBar, kPrompts),
                runs[2].changed(generated) >= kBar);
  return outcome;
}

}  // namespace

const Experiment kBreak{"break",
                        "Broken on purpose",
                        "What happens when one cached key is wrong, or everything is written one slot late?",
                        30,
                        10,
                        run};

}  // namespace quire::lab
