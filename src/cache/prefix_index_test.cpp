#include "cache/prefix_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace quire {
namespace {

using Kind = GroupNeed::Kind;
using Tokens = std::vector<TokenId>;

constexpr int kSize = 4;  // tokens in a block

Digest root_of(int tenant) { return Hasher().update(tenant).finish(); }

PrefixIndex make(std::vector<GroupNeed> groups = {{Kind::full, 0}}) { return {std::move(groups), make_lru(), kSize}; }

// Blocks whose tokens are all the same: {1, 2} is 1 1 1 1 2 2 2 2.
Tokens prompt(const std::vector<TokenId>& blocks) {
  Tokens tokens;
  for (const TokenId t : blocks) tokens.insert(tokens.end(), kSize, t);
  return tokens;
}

struct Chain {
  ChainNamer start{root_of(0)};

  // Inserts every whole block in the groups that `wanted` says, and returns the blocks.
  template <class Wanted>
  std::vector<BlockId> insert(PrefixIndex& index, const Tokens& tokens, Wanted wanted) const {
    ChainNamer namer = start;
    std::vector<BlockId> blocks;
    BlockId parent = kNoBlock;
    for (std::size_t at = 0; at + kSize <= tokens.size(); at += kSize) {
      const auto block_tokens = std::span(tokens).subspan(at, kSize);
      const BlockName name = namer.next(block_tokens);
      for (int g = 0; g < index.groups(); ++g) {
        if (wanted(static_cast<int>(blocks.size()), g))
          parent = index.insert(parent_of(blocks), name, block_tokens, g).block;
      }
      blocks.push_back(parent);
    }
    return blocks;
  }
  std::vector<BlockId> insert(PrefixIndex& index, const Tokens& tokens) const {
    return insert(index, tokens, [](int, int) { return true; });
  }
  static BlockId parent_of(const std::vector<BlockId>& blocks) { return blocks.empty() ? kNoBlock : blocks.back(); }

  // What is found for the tokens and one more.
  PrefixHit lookup(const PrefixIndex& index, Tokens tokens) const {
    tokens.push_back(1'000'000);
    return index.lookup(start, tokens);
  }
  std::int64_t found(const PrefixIndex& index, const Tokens& tokens) const { return lookup(index, tokens).tokens; }
};

TEST(PrefixIndex, NamesThatAreKnownFindTheSame) {
  PrefixIndex index = make();
  const Chain chain;
  chain.insert(index, prompt({1, 2, 3}));
  for (const auto& blocks : {std::vector<TokenId>{1, 2, 3}, {1, 2, 9}, {1}, {9, 2}, {}}) {
    Tokens tokens = prompt(blocks);
    tokens.insert(tokens.end(), {3, 3, 3});
    ChainNamer namer = chain.start;
    std::vector<BlockName> names;
    for (std::size_t i = 0; i < blocks.size(); ++i)
      names.push_back(namer.next(std::span(tokens).subspan(i * kSize, kSize)));
    const PrefixHit by_chain = index.lookup(chain.start, tokens), by_name = index.lookup(names, tokens);
    EXPECT_EQ(by_name.blocks, by_chain.blocks);
    if (blocks.empty()) continue;  // without a name there is no telling where it would go on
    EXPECT_EQ(by_name.partial, by_chain.partial);
    EXPECT_EQ(by_name.partial_tokens, by_chain.partial_tokens);
  }
}

TEST(PrefixIndex, RemembersWhatItEvicted) {
  PrefixIndex index = make();
  const Chain chain;
  chain.insert(index, prompt({1}));
  const Tokens tokens = prompt({1});
  ChainNamer namer = chain.start;
  const Digest name = namer.next(tokens).chain;
  EXPECT_FALSE(index.was_evicted(name));
  EXPECT_EQ(index.evict().size(), 1u);
  EXPECT_TRUE(index.was_evicted(name));
  EXPECT_FALSE(index.was_evicted(root_of(5)));
}

TEST(PrefixIndex, FindsTheLongestPrefix) {
  PrefixIndex index = make();
  const Chain chain;
  EXPECT_EQ(chain.found(index, prompt({1, 2})), 0);
  const auto blocks = chain.insert(index, prompt({1, 2, 3}));
  EXPECT_EQ(chain.lookup(index, prompt({1, 2, 3, 4})).blocks, blocks);
  EXPECT_EQ(chain.found(index, prompt({1, 2, 9})), 2 * kSize);
  EXPECT_EQ(chain.found(index, prompt({1})), 1 * kSize);
  EXPECT_EQ(chain.found(index, prompt({2, 3})), 0) << "the same tokens elsewhere are other pages";
  EXPECT_EQ(index.lookup(chain.start, {}).tokens, 0);
}

TEST(PrefixIndex, LeavesATokenToCompute) {
  PrefixIndex index = make();
  const Chain chain;
  const auto blocks = chain.insert(index, prompt({1, 2}));
  const PrefixHit hit = index.lookup(chain.start, prompt({1, 2}));
  EXPECT_EQ(hit.tokens, 1 * kSize);
  EXPECT_EQ(hit.partial, blocks[1]) << "all but its last token";
  EXPECT_EQ(hit.partial_tokens, kSize - 1);
}

TEST(PrefixIndex, RootsNeverShare) {
  PrefixIndex index = make();
  const Chain ours, theirs{ChainNamer(root_of(1))};
  const auto blocks = ours.insert(index, prompt({1, 2}));
  const PrefixHit hit = theirs.lookup(index, prompt({1, 2}));
  EXPECT_EQ(hit.tokens, 0);
  EXPECT_EQ(hit.partial, kNoBlock);
  for (const BlockId block : theirs.insert(index, prompt({1, 2}))) EXPECT_EQ(std::ranges::count(blocks, block), 0);
  EXPECT_EQ(index.blocks(), 4u);
}

TEST(PrefixIndex, APolicySharesWhatComesBeforeIt) {
  PrefixIndex index = make();
  Chain plain, policy, other;
  policy.start.mix_at(2, root_of(77));
  other.start.mix_at(2, root_of(78));
  plain.insert(index, prompt({1, 2, 3, 4}));
  EXPECT_EQ(policy.found(index, prompt({1, 2, 3, 4})), 2 * kSize);
  EXPECT_EQ(policy.lookup(index, prompt({1, 2, 3})).partial, kNoBlock) << "a page made without the policy";
  policy.insert(index, prompt({1, 2, 3}));
  EXPECT_EQ(policy.found(index, prompt({1, 2, 3, 4})), 3 * kSize);
  EXPECT_EQ(other.found(index, prompt({1, 2, 3, 4})), 2 * kSize);
  EXPECT_EQ(plain.found(index, prompt({1, 2, 3, 4})), 4 * kSize);
  EXPECT_EQ(index.blocks(), 5u);
}

TEST(PrefixIndex, ANameAloneProvesNothing) {
  PrefixIndex index = make();
  const Chain chain;
  const Tokens ours = prompt({1}), theirs = prompt({2});
  const BlockName forged = ChainNamer(chain.start).next(ours);
  const BlockId block = index.insert(kNoBlock, forged, theirs, 0).block;
  ASSERT_NE(block, kNoBlock);
  EXPECT_EQ(chain.found(index, ours), 0);
  EXPECT_EQ(index.insert(kNoBlock, forged, ours, 0).block, kNoBlock) << "the page stays private";
  EXPECT_EQ(index.insert(block, forged, theirs, 0).block, kNoBlock) << "the same tokens after another block";
}

TEST(PrefixIndex, AWindowNeedsItsLastTokens) {
  for (const auto& [window, needed] : std::map<std::int64_t, int>{{1, 0}, {2, 1}, {5, 1}, {6, 2}, {9, 2}, {10, 3}}) {
    for (int present = 0; present <= 3; ++present) {
      PrefixIndex index = make({{Kind::full, 0}, {Kind::window, window}});
      const Chain chain;
      chain.insert(index, prompt({1, 2, 3, 4}), [&](int block, int g) { return g == 0 || block >= 4 - present; });
      EXPECT_EQ(chain.found(index, prompt({1, 2, 3, 4})) == 4 * kSize, present >= needed) << window << " " << present;
    }
  }
}

TEST(PrefixIndex, AWindowWithAGapResumesBeforeIt) {
  PrefixIndex index = make({{Kind::full, 0}, {Kind::window, kSize + 2}});  // the last two blocks
  const Chain chain;
  chain.insert(index, prompt({1, 2, 3, 4, 5}), [](int block, int g) { return g == 0 || block != 3; });
  EXPECT_EQ(chain.found(index, prompt({1, 2, 3, 4, 5})), 3 * kSize);
  EXPECT_EQ(index.needed(1, 3).first, 1);
}

TEST(PrefixIndex, TwinsOfTheLastBlocksAreNeeded) {
  const std::vector<GroupNeed> groups{{Kind::full, 0}, {Kind::recent, 2 * kSize}};
  PrefixIndex index = make(groups);
  const Chain chain;
  const auto blocks = chain.insert(index, prompt({1, 2, 3, 4}), [](int block, int g) { return g == 0 || block >= 2; });
  EXPECT_EQ(chain.found(index, prompt({1, 2, 3, 4})), 4 * kSize);
  EXPECT_EQ(chain.found(index, prompt({1, 2, 3})), 0) << "the twin of block 1 is gone";
  index.drop({blocks[3], 1});
  EXPECT_EQ(chain.found(index, prompt({1, 2, 3, 4})), 0);
  EXPECT_EQ(index.state({blocks[3], 0}), PageState::valid);
}

TEST(PrefixIndex, PartialIsTheClosestUsableFollower) {
  PrefixIndex index = make({{Kind::full, 0}, {Kind::window, 100}});
  const Chain chain;
  const auto with_tail = [](Tokens tail) {
    Tokens tokens = prompt({1});
    tokens.insert(tokens.end(), tail.begin(), tail.end());
    return tokens;
  };
  const BlockId one = chain.insert(index, with_tail({5, 6, 0, 0}))[1];
  const BlockId two = chain.insert(index, with_tail({5, 7, 8, 0}))[1];
  chain.insert(index, with_tail({5, 7, 8, 9}), [](int block, int g) { return block == 0 || g == 0; });
  chain.insert(index, with_tail({6, 7, 8, 9}));
  const auto partial = [&](Tokens tail) {
    const PrefixHit hit = index.lookup(chain.start, with_tail(std::move(tail)));
    EXPECT_EQ(hit.tokens, kSize);
    return std::pair(hit.partial, hit.partial_tokens);
  };
  EXPECT_EQ(partial({5, 6, 9, 9, 9}), std::pair(one, 2));
  EXPECT_EQ(partial({5, 7, 8, 9, 9}), std::pair(two, 3)) << "the exact one lacks its window page";
  EXPECT_EQ(partial({5, 7, 8}), std::pair(two, 2)) << "one token is left to compute";
  EXPECT_EQ(partial({7}), std::pair(kNoBlock, 0));
  EXPECT_EQ(partial({9, 9}), std::pair(kNoBlock, 0));
}

TEST(PrefixIndex, InsertingTwiceAdopts) {
  PrefixIndex index = make();
  const Tokens tokens = prompt({1});
  const BlockName name = ChainNamer(root_of(0)).next(tokens);
  const auto first = index.insert(kNoBlock, name, tokens, 0), second = index.insert(kNoBlock, name, tokens, 0);
  EXPECT_FALSE(first.was_valid);
  EXPECT_TRUE(second.was_valid);
  EXPECT_EQ(first.block, second.block);
  EXPECT_EQ(index.stats().inserted, 1u);
  EXPECT_EQ(index.stats().adopted, 1u);
}

TEST(PrefixIndex, APromiseIsKeptOrHandedOver) {
  PrefixIndex index = make();
  const Chain chain;
  const Tokens tokens = prompt({1});
  const BlockName name = ChainNamer(root_of(0)).next(tokens);
  const auto claim = [&](RequestId who) { return index.claim(kNoBlock, name, tokens, 0, who); };
  const PageId page{claim(1).block, 0};
  EXPECT_EQ(index.state(page), PageState::promised);
  EXPECT_EQ(chain.found(index, tokens), 0);
  EXPECT_TRUE(index.evict().empty());
  for (const RequestId who : {2u, 3u, 4u}) EXPECT_EQ(claim(who).found, PageState::promised);

  EXPECT_EQ(index.abandon(page, 3), std::nullopt) << "it only waited";
  EXPECT_EQ(index.abandon(page, 1), std::optional<RequestId>(2));
  EXPECT_EQ(index.state(page), PageState::promised);
  const auto kept = index.insert(kNoBlock, name, tokens, 0);
  EXPECT_EQ(kept.waiting, std::vector<RequestId>{4});
  EXPECT_EQ(index.state(page), PageState::valid);
  EXPECT_EQ(claim(5).found, PageState::valid);
}

TEST(PrefixIndex, APromiseNobodyWantsLeavesNothing) {
  PrefixIndex index = make();
  const Tokens tokens = prompt({1, 2});
  ChainNamer namer{root_of(0)};
  const BlockName first = namer.next(std::span(tokens).first(kSize)),
                  second = namer.next(std::span(tokens).last(kSize));
  const auto one = index.claim(kNoBlock, first, std::span(tokens).first(kSize), 0, 1);
  const auto two = index.claim(one.block, second, std::span(tokens).last(kSize), 0, 1);
  EXPECT_EQ(two.found, PageState::absent);
  index.abandon({one.block, 0}, 1);
  EXPECT_EQ(index.blocks(), 2u) << "the second still hangs on the first";
  index.abandon({two.block, 0}, 1);
  EXPECT_EQ(index.blocks(), 0u);
}

TEST(PrefixIndex, ChildrenLeaveBeforeParents) {
  PrefixIndex index = make({{Kind::full, 0}, {Kind::window, 100}});
  const Chain chain;
  const auto trunk = chain.insert(index, prompt({1, 2}));
  const auto left = chain.insert(index, prompt({1, 2, 3}));
  const auto right = chain.insert(index, prompt({1, 2, 4, 5}));
  // The tips were used last, and by none but them were the blocks before used.
  std::vector<BlockId> order;
  for (auto pages = index.evict(); !pages.empty(); pages = index.evict()) {
    ASSERT_EQ(pages.size(), 2u) << "a block leaves with the pages of all groups";
    order.push_back(pages[0].block);
  }
  EXPECT_EQ(order, (std::vector<BlockId>{left[2], right[3], right[2], trunk[1], trunk[0]}));
  EXPECT_EQ(index.stats().evicted, 10u);
  EXPECT_EQ(index.blocks(), 0u);
}

TEST(PrefixIndex, APinHoldsTheWholeChain) {
  PrefixIndex index = make();
  const Chain chain;
  chain.insert(index, prompt({1, 2, 3}));
  chain.insert(index, prompt({1, 4}));
  const PrefixHit hit = chain.lookup(index, prompt({1, 2}));
  index.admit(hit, 9);
  index.pin(hit.blocks.back());
  EXPECT_EQ(index.evict(100).size(), 2u) << "blocks 3 and 4";
  EXPECT_EQ(chain.found(index, prompt({1, 2})), 2 * kSize);
  index.unpin(hit.blocks.back());
  EXPECT_TRUE(index.evict().empty()) << "pinned twice";
  index.unpin(hit.blocks.back());
  EXPECT_EQ(index.evict(100).size(), 2u);
  EXPECT_DEATH(index.unpin(hit.blocks.back()), "not pinned");
}

TEST(PrefixIndex, CountsWhatWasAskedAndFound) {
  PrefixIndex index = make();
  const Chain chain;
  chain.insert(index, prompt({1, 2}));
  chain.lookup(index, prompt({1}));
  EXPECT_EQ(index.stats().lookups, 0u) << "only requests that go ahead count";
  index.admit(chain.lookup(index, prompt({1, 2})), 9);
  index.admit(chain.lookup(index, prompt({7})), 5);
  EXPECT_EQ(index.stats().lookups, 2u);
  EXPECT_EQ(index.stats().asked_tokens, 14u);
  EXPECT_EQ(index.stats().hit_tokens, 8u);
}

// Random traffic against a set of the prefixes that should be there.
TEST(PrefixIndex, AgreesWithASetOfPrefixes) {
  for (const auto& policy : eviction_policy_names()) {
    PrefixIndex index({{Kind::full, 0}}, std::move(*make_eviction_policy(policy)), kSize);
    const Chain chain;
    std::mt19937 random(3);
    std::map<BlockId, std::vector<TokenId>> present;
    std::vector<BlockId> pinned;
    for (int round = 0; round < 3000; ++round) {
      std::vector<TokenId> blocks(random() % 6 + 1);
      for (TokenId& t : blocks) t = static_cast<TokenId>(random() % 3);
      std::set<std::vector<TokenId>> prefixes;
      for (const auto& [id, prefix] : present) prefixes.insert(prefix);
      ASSERT_EQ(prefixes.size(), present.size());
      std::size_t expected = 0;
      while (expected < blocks.size() &&
             prefixes.contains({blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(expected) + 1})) {
        ++expected;
      }
      const PrefixHit hit = chain.lookup(index, prompt(blocks));
      ASSERT_EQ(hit.blocks.size(), expected);
      index.admit(hit, prompt(blocks).size() + 1);
      if (!hit.blocks.empty()) pinned.push_back(hit.blocks.back());
      const auto inserted = chain.insert(index, prompt(blocks));
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        present[inserted[i]] = {blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(i) + 1};
      }
      while (pinned.size() > random() % 4) {
        index.unpin(pinned.front());
        pinned.erase(pinned.begin());
      }
      for (const PageId& page : index.evict(random() % 8)) {
        const std::vector<TokenId> gone = present.at(page.block);
        present.erase(page.block);
        for (const auto& [id, prefix] : present) {
          ASSERT_FALSE(prefix.size() > gone.size() && std::equal(gone.begin(), gone.end(), prefix.begin()))
              << "a parent left before its child";
        }
        ASSERT_EQ(std::ranges::count(pinned, page.block), 0);
      }
      ASSERT_EQ(index.blocks(), present.size());
    }
  }
}

}  // namespace
}  // namespace quire
