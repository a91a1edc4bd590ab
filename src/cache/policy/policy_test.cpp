#include "cache/policy/policy.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(RetentionPolicy, IsSpelledAsUsersKnowIt) {
  for (const char* text : {"full", "window:2048", "sinks:4+2044", "h2o:512", "h2o:25%", "snapkv:1024", "snapkv:50%"}) {
    const auto policy = parse_policy(text);
    ASSERT_TRUE(policy.ok()) << text;
    EXPECT_EQ((*policy)->name(), text);
  }
  for (const char* wrong : {"", "Full", "full:1", "window", "window:", "window:0", "window:-3", "window:3x", "sinks:4",
                            "sinks:+3", "sinks:4+", "h2o:0", "h2o:101%", "h2o:%", "snapkv:", "streaming:4"}) {
    const auto policy = parse_policy(wrong);
    ASSERT_FALSE(policy.ok()) << wrong;
    EXPECT_EQ(policy.error().code, Errc::invalid_argument);
  }
}

TEST(RetentionPolicy, WhatQueriesSee) {
  EXPECT_EQ((*parse_policy("full"))->visible(), (KvVisibility{0, 0}));
  EXPECT_EQ((*parse_policy("window:100"))->visible(), (KvVisibility{0, 100}));
  EXPECT_EQ((*parse_policy("sinks:4+100"))->visible(), (KvVisibility{4, 100}));
  const KvVisibility visible{4, 100};
  EXPECT_EQ(visible.first(50), 0);
  EXPECT_EQ(visible.first(103), 0) << "4 sinks and the last 100 are everything";
  EXPECT_EQ(visible.first(104), 5);
}

TEST(RetentionPolicy, H2oKeepsHalfForRecentTokens) {
  const auto policy = *parse_policy("h2o:128");
  EXPECT_EQ(policy->scored_rows({0, 500, 0, 0}, 77), 77) << "every query counts";
  EXPECT_FALSE(policy->evict({128, 500, 0, 0}));
  EXPECT_FALSE(policy->evict({159, 500, 0, 0})) << "pages leave whole";
  auto eviction = policy->evict({160, 500, 0, 0});
  ASSERT_TRUE(eviction);
  EXPECT_EQ(eviction->first_position, 96);
  EXPECT_EQ(eviction->keep, 64);
  EXPECT_FALSE(policy->evict({170, 500, 64, 96}));
  eviction = policy->evict({192, 500, 64, 96});
  ASSERT_TRUE(eviction);
  EXPECT_EQ(eviction->first_position, 128);
}

TEST(RetentionPolicy, SnapKvVotesAtTheEndOfThePrompt) {
  const auto policy = *parse_policy("snapkv:25%");
  EXPECT_EQ(policy->scored_rows({0, 1000, 0, 0}, 512), 0);
  EXPECT_EQ(policy->scored_rows({512, 1000, 0, 0}, 488), 32);
  EXPECT_EQ(policy->scored_rows({960, 1000, 0, 0}, 20), 12) << "voters may be spread over chunks";
  EXPECT_EQ(policy->scored_rows({1000, 1000, 0, 0}, 1), 0);
  EXPECT_FALSE(policy->evict({512, 1000, 0, 0}));
  const auto eviction = policy->evict({1000, 1000, 0, 0});
  ASSERT_TRUE(eviction);
  EXPECT_EQ(eviction->first_position, 960);
  EXPECT_EQ(eviction->keep, 250 - 40);
  EXPECT_FALSE(policy->evict({1001, 1000, 210, 960}));
  std::vector<float> votes{0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  policy->rank(votes);
  EXPECT_EQ(votes, (std::vector<float>{0, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 1, 1, 1})) << "three before, six after";
}

}  // namespace
}  // namespace quire
