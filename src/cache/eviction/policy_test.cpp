#include "cache/eviction/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cache/prefix_index.h"

namespace quire {
namespace {

TEST(EvictionPolicy, UnknownNamesAreRefused) {
  const auto refused = make_eviction_policy("fifo");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("lru"), std::string::npos);
}

// Conversations as lists of blocks of one token; a cache of `capacity` blocks.
class Traffic {
 public:
  Traffic(std::string_view policy, std::size_t capacity)
      : index_({{GroupNeed::Kind::full, 0}}, std::move(*make_eviction_policy(policy)), 1), capacity_(capacity) {}

  void request(const std::vector<TokenId>& blocks) {
    std::vector<TokenId> tokens = blocks;
    tokens.push_back(-1);
    const PrefixHit hit = index_.lookup(start_, tokens);
    index_.admit(hit, blocks.size());
    hits_ += hit.blocks.size();
    asked_ += blocks.size();
    ChainNamer namer = start_;
    BlockId last = kNoBlock;
    for (const TokenId& token : blocks) {
      const BlockName name = namer.next({&token, 1});
      last = index_.insert(last, name, {&token, 1}, 0).block;
    }
    if (!hit.blocks.empty()) index_.unpin(hit.blocks.back());
    while (index_.blocks() > capacity_) ASSERT_FALSE(index_.evict().empty());
  }
  double hit_rate() const { return static_cast<double>(hits_) / static_cast<double>(asked_); }

 private:
  PrefixIndex index_;
  std::size_t capacity_;
  ChainNamer start_{Digest{}};
  std::uint64_t hits_ = 0, asked_ = 0;
};

TEST(EvictionPolicy, LruKeepsWhatWasUsedLast) {
  Traffic traffic("lru", 2);
  traffic.request({1});
  traffic.request({2});
  traffic.request({1});
  traffic.request({3});
  EXPECT_DOUBLE_EQ(traffic.hit_rate(), 0.25);
  traffic.request({1});
  EXPECT_DOUBLE_EQ(traffic.hit_rate(), 0.4) << "2 left, not 1";
}

TEST(EvictionPolicy, WhoeverUsedABlockUsedItsParent) {
  for (const auto& name : eviction_policy_names()) {
    const auto policy = std::move(*make_eviction_policy(name));
    policy->inserted(0, kNoBlock, 100);
    policy->inserted(1, kNoBlock, 101);
    policy->inserted(2, 0, 102);
    policy->removed(2, 0);
    policy->may_leave(0);
    policy->may_leave(1);
    EXPECT_EQ(policy->victim(), std::optional<BlockId>(1)) << name;
    policy->must_stay(1);
    EXPECT_EQ(policy->victim(), std::optional<BlockId>(0)) << name;
    policy->must_stay(0);
    EXPECT_EQ(policy->victim(), std::nullopt) << name;
  }
}

// A few system prompts that many requests share, among requests that never return and flush the cache in between.
double shared_prompts_among_one_offs(std::string_view policy) {
  Traffic traffic(policy, 300);
  std::mt19937 random(5);
  TokenId fresh = 1000;
  for (int round = 0; round < 4000; ++round) {
    std::vector<TokenId> blocks;
    if (random() % 10 == 0) {
      const auto prompt = static_cast<TokenId>(random() % 4);
      for (TokenId i = 0; i < 20; ++i) blocks.push_back(prompt * 20 + i);
    }
    for (int i = 0; i < 20; ++i) blocks.push_back(fresh++);
    traffic.request(blocks);
  }
  return traffic.hit_rate();
}

TEST(EvictionPolicy, ReturnRateAndS3FifoResistScans) {
  const double lru = shared_prompts_among_one_offs("lru");
  EXPECT_GT(shared_prompts_among_one_offs("return-rate"), 1.5 * lru);
  EXPECT_GT(shared_prompts_among_one_offs("s3-fifo"), 1.2 * lru);
}

TEST(EvictionPolicy, S3FifoSendsOnWhatReturnsTwice) {
  const auto policy = std::move(*make_eviction_policy("s3-fifo"));
  for (BlockId block = 0; block < 3; ++block) {
    policy->inserted(block, kNoBlock, static_cast<std::uint64_t>(block) + 100);
    policy->may_leave(block);
  }
  policy->used(0);
  policy->used(0);
  policy->used(1);
  EXPECT_EQ(policy->victim(), std::optional<BlockId>(1)) << "0 went on to the main queue; one use is not enough for 1";
  policy->must_stay(1);
  policy->removed(1, kNoBlock);
  EXPECT_EQ(policy->victim(), std::optional<BlockId>(2));
  policy->must_stay(2);
  policy->removed(2, kNoBlock);
  policy->inserted(1, kNoBlock, 102);  // returns under another id, and is remembered
  policy->may_leave(1);
  policy->inserted(2, kNoBlock, 200);
  policy->may_leave(2);
  EXPECT_EQ(policy->victim(), std::optional<BlockId>(2)) << "the newest, but in the small queue";
}

// A policy may prepare a burst of evictions; pins, uses and new blocks in between must count.
TEST(EvictionPolicy, VictimsMayChangeBetweenTwoLooks) {
  for (const auto& name : eviction_policy_names()) {
    const auto policy = std::move(*make_eviction_policy(name));
    for (BlockId block = 0; block < 6; ++block) {
      policy->inserted(block, kNoBlock, static_cast<std::uint64_t>(block));
      policy->may_leave(block);
    }
    std::vector<BlockId> left;
    const auto evict = [&] {
      const std::optional<BlockId> victim = policy->victim();
      ASSERT_TRUE(victim) << name;
      EXPECT_EQ(policy->victim(), victim) << name << ": looking changes nothing";
      policy->must_stay(*victim);
      policy->removed(*victim, kNoBlock);
      left.push_back(*victim);
    };
    const BlockId first = *policy->victim();
    policy->must_stay(first);  // pinned meanwhile
    evict();
    policy->may_leave(first);  // and unpinned
    evict();
    EXPECT_EQ(left.back(), first) << name;
    while (left.size() < 6) evict();
    EXPECT_EQ(policy->victim(), std::nullopt) << name;
    std::ranges::sort(left);
    EXPECT_EQ(left, (std::vector<BlockId>{0, 1, 2, 3, 4, 5})) << name;
  }
}

// Chats of up to six turns that come back after others had theirs: a cache too small for all of them.
double chats(std::string_view policy, std::size_t capacity) {
  Traffic traffic(policy, capacity);
  std::mt19937 random(9);
  TokenId fresh = 0;
  std::vector<std::vector<TokenId>> open(60);
  for (int round = 0; round < 6000; ++round) {
    std::vector<TokenId>& chat = open[static_cast<std::size_t>(round) % open.size()];
    if (random() % 2 == 0) chat.clear();  // this user leaves, another comes
    for (int i = 0; i < 8; ++i) chat.push_back(fresh++);
    traffic.request(chat);
  }
  return traffic.hit_rate();
}

TEST(EvictionPolicy, ReturnRateKeepsSomeChatsWhereLruLosesAll) {
  EXPECT_LT(chats("lru", 400), 0.02) << "every chat is dropped just before its next turn";
  EXPECT_GT(chats("return-rate", 400), 0.1);
  EXPECT_GE(chats("return-rate", 5000), chats("lru", 5000)) << "nothing is lost where all fit";
}

// What was hot and is no longer must go.
TEST(EvictionPolicy, ReturnRateForgets) {
  Traffic traffic("return-rate", 100);
  std::vector<TokenId> old_favourite(80), new_favourite(80);
  for (TokenId i = 0; i < 80; ++i) {
    old_favourite[static_cast<std::size_t>(i)] = i;
    new_favourite[static_cast<std::size_t>(i)] = 1000 + i;
  }
  for (int i = 0; i < 500; ++i) traffic.request(old_favourite);
  for (int i = 0; i < 500; ++i) traffic.request(new_favourite);
  EXPECT_GT(traffic.hit_rate(), 0.97);
}

}  // namespace
}  // namespace quire
