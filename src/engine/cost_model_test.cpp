#include "engine/cost_model.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

ModelConfig small_model() {
  ModelConfig config;
  config.layers = 2;
  config.width = 64;
  config.q_heads = 4;
  config.kv_heads = 2;
  config.head_dim = 16;
  config.ff_width = 128;
  return config;
}

constexpr std::uint64_t kMiB = 1 << 20;

class CostModelTest : public ::testing::Test {
 protected:
  void answers(int steps, double ms) {
    for (int i = 0; i < steps; ++i) cost.observe({8, 0, 0}, ms);
  }
  CostModel cost{small_model()};
};

TEST_F(CostModelTest, UnknownUntilSeen) {
  EXPECT_EQ(cost.decode_ms(8), 0);
  EXPECT_EQ(cost.fresh_ms(kMiB), 0);
  EXPECT_EQ(cost.rows_within(100, 0, 512), 2);
}

TEST_F(CostModelTest, AStepOfAnswersIsKnownOnceSeenEvenWhereItTookFreshMemory) {
  EXPECT_FALSE(cost.knows_decode(8));
  cost.observe({8, 0, 0}, 10);
  EXPECT_TRUE(cost.knows_decode(8));
  EXPECT_FALSE(cost.knows_decode(64));
  cost.observe({64, 0, kMiB}, 40);
  EXPECT_TRUE(cost.knows_decode(64));
  EXPECT_GT(cost.prompt_budget_ms(64), cost.prompt_budget_ms(8));
}

TEST_F(CostModelTest, PromptsGetAShareOfWhatAnswersTake) {
  answers(20, 10);
  EXPECT_DOUBLE_EQ(cost.decode_ms(8), 10);
  EXPECT_GT(cost.prompt_budget_ms(8), 5);
  EXPECT_LT(cost.prompt_budget_ms(8), 20);
  const double before = cost.prompt_budget_ms(8), work = cost.prefill_work(4, 100);
  cost.observe({0, work, 0}, 8);
  for (int i = 0; i < 50; ++i) cost.observe({8, work, 0}, 15 + 8);  // answers now take 15
  EXPECT_LT(cost.prompt_budget_ms(8), before - 3);
  EXPECT_GT(cost.prompt_budget_ms(8), 1);
}

TEST_F(CostModelTest, PromptsGetLessWhereStepsVary) {
  answers(200, 10);
  const double steady = cost.prompt_budget_ms(8);
  for (int i = 0; i < 200; ++i) answers(1, i % 2 == 0 ? 8 : 12);
  EXPECT_NEAR(cost.decode_ms(8), 10, 0.5);
  EXPECT_LT(cost.prompt_budget_ms(8), 0.9 * steady);
  EXPECT_GT(cost.prompt_budget_ms(8), 5);
}

TEST_F(CostModelTest, RowsFollowTheirCost) {
  const double work = cost.prefill_work(10, 0);
  cost.observe({0, work, 0}, 10);
  EXPECT_NEAR(static_cast<double>(cost.rows_within(20, 0, 512)), 20, 2);
  EXPECT_LT(cost.rows_within(20, 4096, 512), cost.rows_within(20, 0, 512));
  EXPECT_EQ(cost.rows_within(1e6, 0, 512), 512);
}

TEST_F(CostModelTest, OneLongStepSaysLittle) {
  answers(20, 10);
  answers(1, 1000);
  EXPECT_LT(cost.decode_ms(8), 11);
  answers(100, 30);
  EXPECT_NEAR(cost.decode_ms(8), 30, 1);
}

TEST_F(CostModelTest, FreshMemoryIsNotTheStepsOwnCost) {
  answers(20, 10);
  for (int i = 0; i < 20; ++i) cost.observe({8, 0, 2 * kMiB}, 16);
  EXPECT_DOUBLE_EQ(cost.decode_ms(8), 10);
  EXPECT_NEAR(cost.fresh_ms(kMiB), 3, 0.01);
}

}  // namespace
}  // namespace quire
