#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>

namespace quire {
namespace {

// Everything off but the temperature.
SamplingOptions plain(float temperature) {
  SamplingOptions o;
  o.temperature = temperature;
  o.top_k = 0;
  o.top_p = 1;
  o.min_p = 0;
  o.seed = 7;
  return o;
}

std::map<TokenId, double> frequencies(const SamplingOptions& options, std::span<const float> logits,
                                      int draws = 20000) {
  Sampler sampler(options);
  std::map<TokenId, double> counts;
  for (int i = 0; i < draws; ++i) counts[sampler.sample(logits, {})] += 1.0 / draws;
  return counts;
}

const std::vector<float> kLogits{std::log(0.1f), std::log(0.4f), std::log(0.3f), std::log(0.2f)};

TEST(Sampler, GreedyTakesTheFirstOfEquals) {
  const std::vector<float> logits{0, 5, 5, 1};
  EXPECT_EQ(Sampler(plain(0)).sample(logits, {}), 1);
}

TEST(Sampler, DrawsByProbability) {
  const auto f = frequencies(plain(1), kLogits);
  EXPECT_NEAR(f.at(0), 0.1, 0.015);
  EXPECT_NEAR(f.at(1), 0.4, 0.015);
  EXPECT_NEAR(f.at(2), 0.3, 0.015);
  EXPECT_NEAR(f.at(3), 0.2, 0.015);
}

TEST(Sampler, TemperatureSharpens) {
  // Squared and normalised: 0.01, 0.16, 0.09, 0.04 of 0.30.
  const auto f = frequencies(plain(0.5), kLogits);
  EXPECT_NEAR(f.at(1), 0.16 / 0.30, 0.015);
  EXPECT_NEAR(f.at(0), 0.01 / 0.30, 0.01);
}

TEST(Sampler, TopKTopPAndMinPCut) {
  auto k = plain(1);
  k.top_k = 2;
  const auto by_k = frequencies(k, kLogits);
  EXPECT_EQ(by_k.size(), 2u);
  EXPECT_NEAR(by_k.at(1), 0.4 / 0.7, 0.015);

  auto p = plain(1);
  p.top_p = 0.75f;  // 0.4 + 0.3 is not enough, the next one is kept
  EXPECT_EQ(frequencies(p, kLogits).size(), 3u);
  p.top_p = 0.65f;
  EXPECT_EQ(frequencies(p, kLogits).size(), 2u);
  p.top_p = 0;
  EXPECT_EQ(frequencies(p, kLogits).size(), 1u);

  auto m = plain(1);
  m.min_p = 0.6f;  // of 0.4: keeps 0.4 and 0.3
  EXPECT_EQ(frequencies(m, kLogits).size(), 2u);
}

// Against sorting everything.
TEST(Sampler, TopKAreTheLikeliestOfThoseAllowed) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<float> logits(1 + random() % 200);
    for (float& x : logits) x = static_cast<float>(random() % 12);  // with many equals
    std::vector<std::uint64_t> allowed((logits.size() + 63) / 64);
    std::vector<TokenId> expected;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (random() % 3 == 0 && i + 1 < logits.size()) continue;
      allowed[i / 64] |= std::uint64_t{1} << (i % 64);
      expected.push_back(static_cast<TokenId>(i));
    }
    std::ranges::stable_sort(expected, std::greater<>(),
                             [&](TokenId t) { return logits[static_cast<std::size_t>(t)]; });
    SamplingOptions options;
    options.top_k = static_cast<int>(random() % 40);
    options.top_p = 1;
    options.min_p = 0;
    options.temperature = round % 5 == 0 ? 0 : 1;
    const std::size_t most = options.temperature == 0 ? 1
                             : options.top_k == 0     ? expected.size()
                                                      : static_cast<std::size_t>(options.top_k);
    expected.resize(std::min(expected.size(), most));
    Sampler sampler(options);
    std::vector<TokenId> found;
    for (const TokenChance& chance : sampler.distribution(logits, {}, allowed)) found.push_back(chance.token);
    EXPECT_EQ(found, expected) << "round " << round;
  }
}

// Against sorting everything and adding up chances in doubles.
TEST(Sampler, TopPAndMinPOfAWholeVocabulary) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 200; ++round) {
    std::vector<float> logits(1 + random() % 3000);
    const float spread = std::array{0.f, 0.1f, 2.f, 8.f, 60.f}[static_cast<std::size_t>(round % 5)];
    for (float& x : logits) x = spread * normal(random);
    if (round % 7 == 0) logits[random() % logits.size()] = std::numeric_limits<float>::quiet_NaN();
    auto options = plain(1);
    options.top_p = round % 3 == 0 ? 1.f : static_cast<float>(random() % 100) / 100;
    options.min_p = round % 3 == 1 ? 0.f : static_cast<float>(random() % 100) / 200;

    std::vector<std::pair<double, TokenId>> all;
    double largest = -1e30, total = 0, sum = 0;
    for (const float x : logits) largest = std::isnan(x) ? largest : std::max(largest, static_cast<double>(x));
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (std::isnan(logits[i])) continue;
      all.emplace_back(std::exp(static_cast<double>(logits[i]) - largest), static_cast<TokenId>(i));
      total += all.back().first;
    }
    if (all.empty()) continue;
    std::ranges::stable_sort(all, std::greater<>(), [](const auto& one) { return one.first; });
    Sampler sampler(options);
    const auto chances = sampler.distribution(logits, {});
    // Of chances as near to the border as floats are to numbers either side is right.
    std::size_t least = 0, most = 0;
    for (const auto& one : all) {
      const double weight = one.first;
      const auto kept = [&](double slack) {
        return (sum == 0 || options.top_p >= 1 || sum / total < static_cast<double>(options.top_p) + slack) &&
               weight >= static_cast<double>(options.min_p) - slack && weight > 1e-34;
      };
      least += kept(-1e-5);
      most += kept(1e-5);
      sum += weight;
    }
    ASSERT_GE(chances.size(), std::max<std::size_t>(least, 1)) << "round " << round;
    ASSERT_LE(chances.size(), std::max<std::size_t>(most, 1)) << "round " << round;
    double together = 0;
    for (std::size_t i = 0; i < chances.size(); ++i) together += all[i].first;
    for (std::size_t i = 0; i < chances.size(); ++i) {
      EXPECT_NEAR(chances[i].probability, all[i].first / together, 1e-5) << "round " << round;
    }
  }
}

TEST(Sampler, SameSeedSameTokens) {
  Sampler a(plain(1)), b(plain(1));
  auto other = plain(1);
  other.seed = 8;
  Sampler c(other);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const TokenId token = a.sample(kLogits, {});
    ASSERT_EQ(token, b.sample(kLogits, {}));
    differs = differs || token != c.sample(kLogits, {});
  }
  EXPECT_TRUE(differs);
}

TEST(Sampler, RepetitionPenaltyCountsEachTokenOnce) {
  auto o = plain(0);
  o.repeat_penalty = 2;
  const std::vector<float> logits{3.f, 2.f, -1.f};
  const std::vector<TokenId> history{0, 0, 0};
  EXPECT_EQ(Sampler(o).sample(logits, history), 1);  // 3 / 2 < 2
  o.repeat_penalty = 1.4f;
  EXPECT_EQ(Sampler(o).sample(logits, history), 0);  // 3 / 1.4 > 2, not 3 / 1.4^3
  o.repeat_penalty = 2;
  o.repeat_last = 0;
  EXPECT_EQ(Sampler(o).sample(logits, history), 0);
  const std::vector<float> negative{-1.f, -1.5f};
  o.repeat_last = 3;
  EXPECT_EQ(Sampler(o).sample(negative, history), 1);  // -1 * 2
}

TEST(Sampler, PresenceAndFrequencyLowerWhatWasSaid) {
  const std::vector<float> logits{3.f, 2.f, -1.f};
  const std::vector<TokenId> history{0, 0, 0};
  auto o = plain(0);
  o.presence_penalty = 0.9f;  // once, however often it came
  EXPECT_EQ(Sampler(o).sample(logits, history), 0);
  o.presence_penalty = 1.1f;
  EXPECT_EQ(Sampler(o).sample(logits, history), 1);
  o.presence_penalty = 0;
  o.frequency_penalty = 0.3f;
  EXPECT_EQ(Sampler(o).sample(logits, history), 0);
  o.frequency_penalty = 0.4f;  // three times
  EXPECT_EQ(Sampler(o).sample(logits, history), 1);
}

TEST(Sampler, BiasAddsAndForbids) {
  const std::vector<float> logits{3.f, 2.f, -1.f};
  auto o = plain(0);
  o.logit_bias = {{2, 4.5f}};
  EXPECT_EQ(Sampler(o).sample(logits, {}), 2);
  o = plain(1);
  o.logit_bias = {{0, -100.f}};
  EXPECT_EQ(frequencies(o, logits, 200).count(0), 0u);
}

TEST(Sampler, OnlyAllowedTokensCome) {
  const std::vector<std::uint64_t> allowed{0b1010};
  const std::vector<float> logits{3.f, 2.f, 9.f, 1.f};
  EXPECT_EQ(Sampler(plain(0)).sample(logits, {}, allowed), 1);
  Sampler sampler(plain(5));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(sampler.sample(logits, {}, allowed) % 2, 1);
}

// Of 0.4 0.3 0.2 0.1 (entropy 1.28) the surprises are 0.92 1.20 1.61 2.30: the second is the most typical.
TEST(Sampler, TypicalTokensAreThoseOfExpectedSurprise) {
  auto o = plain(1);
  o.typical_p = 0.25f;
  EXPECT_EQ(frequencies(o, kLogits).count(2), 1u);
  EXPECT_EQ(frequencies(o, kLogits).size(), 1u);
  o.typical_p = 0;
  EXPECT_EQ(frequencies(o, kLogits).size(), 1u);
  o.typical_p = 0.45f;  // and the one of 0.2
  EXPECT_EQ(frequencies(o, kLogits).count(3), 1u);
  EXPECT_EQ(frequencies(o, kLogits).count(1), 0u);
}

// Whatever guesses are drawn from, what comes out is distributed as wished.
TEST(Sampler, RejectionSamplingIsExact) {
  const std::vector<TokenChance> wanted{{0, 0.5}, {1, 0.3}, {2, 0.2}}, guessed{{2, 0.6}, {0, 0.3}, {3, 0.1}};
  Sampler sampler(plain(1)), guesser(plain(1));
  constexpr int kDraws = 40000;
  std::map<TokenId, int> counts;
  int kept = 0;
  for (int i = 0; i < kDraws; ++i) {
    const TokenId guess = guesser.draw(guessed), token = sampler.correct(guess, guessed, wanted);
    ++counts[token];
    kept += token == guess;
  }
  for (const TokenChance& chance : wanted) EXPECT_NEAR(counts[chance.token], chance.probability * kDraws, 500);
  EXPECT_EQ(counts.size(), 3u);
  EXPECT_NEAR(kept, 0.5 * kDraws, 500) << "what the two have in common: 0.3 + 0.2";
}

TEST(Sampler, NanIsNeverChosen) {
  const std::vector<float> logits{std::numeric_limits<float>::quiet_NaN(), 1.f, 0.f};
  EXPECT_EQ(Sampler(plain(0)).sample(logits, {}), 1);
  EXPECT_EQ(frequencies(plain(1), logits, 100).count(0), 0u);
}

TEST(Sampler, Validation) {
  EXPECT_TRUE(Sampler::validate({}, 100).ok());
  auto o = plain(-1);
  EXPECT_EQ(Sampler::validate(o, 100).error().message, "temperature is -1; expected 0 or more");
  o = plain(NAN);
  EXPECT_FALSE(Sampler::validate(o, 100).ok());
  o = plain(1);
  o.top_p = -0.1f;
  EXPECT_FALSE(Sampler::validate(o, 100).ok());
  o.top_p = 0;
  EXPECT_TRUE(Sampler::validate(o, 100).ok());
  o = plain(1);
  o.repeat_penalty = 0;
  EXPECT_FALSE(Sampler::validate(o, 100).ok());
}

}  // namespace
}  // namespace quire
