#include "engine/token_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace quire {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

TEST(TokenWeights, AreExponentials) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> between(-70, 30);
  for (const std::size_t tokens : {1u, 7u, 8u, 255u, 256u, 257u, 5000u}) {
    for (const float temperature : {0.1f, 1.f, 10.f}) {
      std::vector<float> logits(tokens);
      for (float& x : logits) x = between(random);
      logits[tokens / 2] = 30;
      for (std::size_t i = 0; i < tokens / 3; ++i) logits[i] = i % 2 == 0 ? kNever : logits[i];
      TokenWeights weights;
      weights.weigh(logits, temperature);
      double total = 0;
      for (std::size_t i = 0; i < tokens; ++i) {
        const double exact = std::exp((static_cast<double>(logits[i]) - 30) / static_cast<double>(temperature));
        EXPECT_NEAR(static_cast<double>(weights.all()[i]), exact, 1e-5 * exact + 2e-35) << logits[i];
        if (logits[i] == kNever) {
          EXPECT_EQ(weights.all()[i], 0);
        }
        total += exact;
      }
      EXPECT_NEAR(weights.total(), total, 1e-5 * total);
      EXPECT_NEAR(weights.total_from(0), total, 1e-5 * total);
      EXPECT_EQ(weights.total_from(2), 0);
    }
  }
}

TEST(TokenWeights, ATokenHasItsShareOfTheTotal) {
  std::vector<float> logits(1000, kNever);
  logits[3] = 0;
  logits[300] = std::log(2.f);
  logits[998] = 0;
  TokenWeights weights;
  weights.weigh(logits, 1);
  EXPECT_EQ(weights.at(0), 3);
  EXPECT_EQ(weights.at(0.2499), 3);
  EXPECT_EQ(weights.at(0.2501), 300);
  EXPECT_EQ(weights.at(0.7499), 300);
  EXPECT_EQ(weights.at(0.7501), 998);
  EXPECT_EQ(weights.at(std::nextafter(1.0, 0.0)), 998);
}

TEST(TokenWeights, TheEndsOfFloats) {
  TokenWeights weights;
  weights.weigh(std::vector<float>(300, kNever), 1);
  EXPECT_EQ(weights.total(), 0);
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kMost = std::numeric_limits<float>::max();
  weights.weigh(std::vector<float>{kInfinity, -kMost, 0, kMost}, 1);
  EXPECT_EQ(weights.total(), 2);
  EXPECT_EQ(weights.at(0.4), 0);
  EXPECT_EQ(weights.at(0.6), 3);
}

}  // namespace
}  // namespace quire
