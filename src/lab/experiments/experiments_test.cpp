// Every experiment on a tiny model of random weights: it runs, says something, and what does not depend on time holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lab/experiments/eviction_rig.h"
#include "lab/experiments/list.h"
#include "lab/experiments/needle.h"

namespace quire::lab {
namespace {

Workbench tiny_bench(WorkbenchOptions options = {}) {
  options.quick = true;
  options.threads = 1;
  Tokens text;
  for (int i = 0; i < 3000; ++i) text.push_back((i * i * 7 + i * 13 + i / 17) % 95 + 1);
  return {*Model::load(std::string(QUIRE_TEST_DATA) + "/models/llama.gguf"), std::move(text), std::move(options)};
}

Outcome outcome_of(const char* name) {
  const auto experiment = find_experiment(name);
  EXPECT_TRUE(experiment.ok());
  Workbench bench = tiny_bench();
  auto outcome = (*experiment)->run(bench);
  EXPECT_TRUE(outcome.ok()) << outcome.error().message;
  return outcome.ok() ? std::move(*outcome) : Outcome{};
}

bool met(const Outcome& outcome, std::string_view part) {
  for (const Check& check : outcome.checks) {
    if (check.what.find(part) != std::string::npos) return check.met;
  }
  ADD_FAILURE() << "no check about " << part;
  return false;
}

class EveryExperiment : public testing::TestWithParam<const Experiment*> {};
INSTANTIATE_TEST_SUITE_P(Lab, EveryExperiment, testing::ValuesIn(experiments().begin(), experiments().end()),
                         [](const auto& param) { return std::string(param.param->name); });

TEST_P(EveryExperiment, SaysWhatItFound) {
  double last = 0;
  int told = 0;
  WorkbenchOptions options;
  options.on_progress = [&](double part, std::string_view what) {
    EXPECT_GE(part, last);
    EXPECT_LE(part, 1);
    EXPECT_FALSE(what.empty());
    last = part;
    ++told;
  };
  Workbench bench = tiny_bench(options);
  const auto outcome = GetParam()->run(bench);
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_GT(told, 1);
  EXPECT_FALSE(outcome->findings.empty());
  EXPECT_FALSE(outcome->figures.empty());
  EXPECT_GT(outcome->charts.size() + outcome->heat_maps.size(), 0u);
  for (const Chart& chart : outcome->charts) {
    EXPECT_FALSE(chart.title.empty() || chart.y.name.empty() || chart.note.empty()) << chart.title;
    EXPECT_FALSE(chart.x.name.empty()) << chart.title;
    for (const Series& series : chart.series) {
      EXPECT_FALSE(series.name.empty()) << chart.title;
      EXPECT_FALSE(series.points.empty()) << chart.title << ": " << series.name;
      for (const Point& p : series.points) {
        EXPECT_TRUE(std::isfinite(p.x) && std::isfinite(p.y)) << chart.title << ": " << series.name;
        EXPECT_LE(p.low, p.y);
        EXPECT_GE(p.high, p.y);
        if (!chart.categories.empty()) {
          EXPECT_LT(p.x, static_cast<double>(chart.categories.size()));
        }
      }
    }
  }
  for (const HeatMap& map : outcome->heat_maps) {
    ASSERT_EQ(map.values.size(), map.rows.size());
    for (const auto& row : map.values) EXPECT_EQ(row.size(), map.columns.size());
  }
  for (const Table& table : outcome->tables) {
    for (const auto& row : table.rows) EXPECT_EQ(row.size(), table.columns.size()) << table.title;
  }
  const auto json = to_json(*outcome);
  EXPECT_EQ(nlohmann::ordered_json::parse(json.dump()), json);
}

TEST_P(EveryExperiment, StopsWhenAsked) {
  std::atomic<bool> stop{true};
  WorkbenchOptions options;
  options.cancel = &stop;
  Workbench bench = tiny_bench(options);
  const auto outcome = GetParam()->run(bench);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, Errc::cancelled);
}

TEST(Experiments, UnknownNamesGetASuggestion) {
  EXPECT_NE(find_experiment("sped").error().message.find("did you mean speed?"), std::string::npos);
  EXPECT_NE(find_experiment("xyzzy").error().message.find("known are speed"), std::string::npos);
}

TEST(Experiments, SpeedComparesTheTwoWays) {
  const Outcome outcome = outcome_of("speed");
  EXPECT_GT(outcome.figure("ratio_32"), 0);
  EXPECT_EQ(outcome.charts[0].series[0].points.size(), outcome.charts[0].series[1].points.size());
}

TEST(Experiments, EqualityHoldsForEveryFormatAndPolicy) {
  const Outcome outcome = outcome_of("equality");
  EXPECT_TRUE(met(outcome, "changes no token"));
  EXPECT_GT(outcome.figure("divergence_q8"), 0);
  EXPECT_GT(outcome.figure("divergence_q4"), outcome.figure("divergence_q8"));
}

TEST(Experiments, BreakingTheCacheIsSeenAndOnlyThen) {
  const Outcome outcome = outcome_of("break");
  EXPECT_TRUE(met(outcome, "before the fault"));
  EXPECT_TRUE(met(outcome, "same to the last bit"));
  EXPECT_GT(outcome.figure("distance_by_key"), 0);
  EXPECT_GT(outcome.figure("distance_by_shift"), outcome.figure("distance_by_key"));
  EXPECT_GT(outcome.figure("changed_by_shift"), 0);
  ASSERT_FALSE(outcome.texts.empty());
  EXPECT_TRUE(outcome.texts[0].versions[0].rest.empty()) << "without a fault nothing differs";
}

TEST(Experiments, BreakingTakesAnotherKeyButOneThatIsThere) {
  const Experiment& experiment = **find_experiment("break");
  WorkbenchOptions options;
  options.broken_key = CachePlace{1, 1, 20};
  Workbench other = tiny_bench(options);
  const auto outcome = experiment.run(other);
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_NE(outcome->findings[0].find("layer 1, head 1, position 20"), std::string::npos) << outcome->findings[0];
  options.broken_key = CachePlace{3, 0, 20};
  Workbench none = tiny_bench(options);
  const auto refused = experiment.run(none);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::invalid_argument);
  EXPECT_NE(refused.error().message.find("expected below 3 layers"), std::string::npos) << refused.error().message;
}

TEST(Experiments, MemoryIsWhatTheFormulaSays) {
  const Outcome outcome = outcome_of("memory");
  EXPECT_LE(outcome.figure("allocator_off"), 0.02);
  EXPECT_EQ(outcome.figure("bytes_per_token"), 2 * 3 * 2 * 12 * 2);
  EXPECT_TRUE(met(outcome, "pages waste less"));
  EXPECT_GT(outcome.figure("preallocated_waste"), outcome.figure("paged_waste"));
  EXPECT_LT(outcome.figure("wall_furthest_from_formula"), 0.1);
}

TEST(Experiments, SharingComputesAndKeepsAPrefixOnce) {
  const Outcome outcome = outcome_of("sharing");
  for (const Check& check : outcome.checks) EXPECT_TRUE(check.met) << check.what;
  EXPECT_LT(outcome.figure("computed_shared"), outcome.figure("computed_separate"));
  EXPECT_GT(outcome.figure("memory_ratio"), 1);
}

TEST(Experiments, PagesHoldMoreSequences) { EXPECT_TRUE(met(outcome_of("capacity"), "paging fits more")); }

TEST(Experiments, FewerBitsCostMore) {
  const Outcome outcome = outcome_of("quant");
  EXPECT_LT(outcome.figure("bytes_q4"), outcome.figure("bytes_q8"));
  EXPECT_LT(outcome.figure("kld_f32"), outcome.figure("kld_q8"));
  EXPECT_LT(outcome.figure("kld_q8"), outcome.figure("kld_q4"));
}

TEST(Experiments, AttentionIsAllAccountedFor) {
  const Outcome outcome = outcome_of("sinks");
  ASSERT_EQ(outcome.heat_maps.size(), 1u);
  ASSERT_EQ(outcome.heat_maps[0].values.size(), 3u) << "one row a layer";
  for (const auto& row : outcome.heat_maps[0].values) {
    EXPECT_NEAR(std::accumulate(row.begin(), row.end(), 0.0), 100, 0.1);
  }
}

TEST(Experiments, MergingLayersSavesBytesAndCosts) {
  const Outcome outcome = outcome_of("layers");
  EXPECT_LE(std::abs(outcome.figure("cosine_keys")), 1);
  const Chart& merged = outcome.charts.at(1);
  EXPECT_EQ(merged.series[0].points.front().x, 100);
  EXPECT_LT(merged.series[0].points.back().x, 80);
  EXPECT_NE(merged.series[0].points.back().y, merged.series[0].points.front().y);
}

// What keeps everything is everything: the rig's forks give the bits that a session gives.
TEST(Experiments, TheEvictionRigAgreesWithASession) {
  const Workbench bench = tiny_bench();
  const Tokens tokens = bench.prompt(0, 100);
  const auto prompt = std::span(tokens).first(96);
  auto rig = std::move(*EvictionRig::create(bench));
  ASSERT_TRUE(rig->prefill(prompt).ok());
  for (const std::string policy : {"full", "h2o:40", "snapkv:48"}) {
    CacheSettings cache;
    cache.policy = policy;
    Session session = std::move(*bench.open(cache));
    (void)session.prefill(prompt);
    const auto expected = *session.decode(tokens[96]);
    const auto kept = rig->apply(policy);
    ASSERT_TRUE(kept.ok()) << kept.error().message;
    const auto logits = rig->go_on({&tokens[96], 1}, *kept);
    ASSERT_TRUE(logits.ok()) << logits.error().message;
    EXPECT_TRUE(std::ranges::equal(*logits, expected)) << policy;
    EXPECT_LE(kept->bytes, rig->apply("full")->bytes);
  }
}

TEST(Experiments, KeepingLessTakesLess) {
  const Outcome outcome = outcome_of("evict");
  EXPECT_GT(outcome.figure("facts_asked"), 0);
  EXPECT_NE(outcome.figure("perplexity_h2o_10"), outcome.figure("perplexity_full"));
}

TEST(Experiments, LargerChunksNeedMoreScratch) {
  const Outcome outcome = outcome_of("layout");
  EXPECT_GT(outcome.figure("scratch_mib_1"), 0);
  EXPECT_GT(outcome.figure("scratch_mib_32"), outcome.figure("scratch_mib_1"));
}

TEST(Needles, HideAFactAndAskForIt) {
  const Workbench bench = tiny_bench();
  const Needle needle = plant_needle(bench, 400, 5, 3);
  EXPECT_EQ(needle.part, 3);
  EXPECT_EQ(needle.prompt, plant_needle(bench, 400, 5, 3).prompt);
  EXPECT_LE(needle.prompt.size(), 400u);
  EXPECT_TRUE(needle.answered_by(" " + needle.code + "."));
  EXPECT_FALSE(needle.answered_by("It is " + needle.code));
  EXPECT_FALSE(needle.answered_by(""));
  EXPECT_TRUE(needle.undecided(""));
  EXPECT_TRUE(needle.undecided(" " + needle.code.substr(0, 3)));
  EXPECT_FALSE(needle.undecided(" " + needle.code));
  EXPECT_FALSE(needle.undecided("It is"));
}

}  // namespace
}  // namespace quire::lab
