#include "grammar/constraint.h"

#include "grammar/grammar_cache.h"
#include "grammar/test_support.h"

namespace quire {
namespace {

using namespace testing_support;

class ConstraintTest : public ::testing::Test {
 protected:
  TokenId id(std::string_view text) const {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i] == text) return static_cast<TokenId>(i);
    }
    ADD_FAILURE() << "no token " << text;
    return -1;
  }
  std::vector<std::string> allowed(const Constraint& constraint, std::int64_t remaining) const {
    std::vector<std::uint64_t> mask = empty_mask(*vocabulary_);
    constraint.mask(remaining, mask);
    std::vector<std::string> texts;
    for (const TokenId token : tokens_in(mask)) texts.push_back(tokens_[static_cast<std::size_t>(token)]);
    return texts;
  }

  std::vector<std::string> tokens_ = small_vocabulary();
  std::shared_ptr<const TokenTrie> vocabulary_ = trie_of(tokens_);
};

using Texts = std::vector<std::string>;

TEST_F(ConstraintTest, AllowsWhatFollowsAndTheEndWhenComplete) {
  CompiledGrammar compiled = compiled_of(*grammar_of_regex("true|tr[x]"), vocabulary_);
  Constraint constraint(compiled);
  EXPECT_EQ(constraint.tokens_to_close(), 2);
  EXPECT_EQ(allowed(constraint, 9), (Texts{"t", "true", "tr"}));
  EXPECT_TRUE(constraint.accept(id("tr")));
  EXPECT_EQ(allowed(constraint, 9), (Texts{"u", "x", "ue"}));
  EXPECT_FALSE(constraint.complete());
  EXPECT_FALSE(constraint.accept(kEndToken));
  EXPECT_FALSE(constraint.accept(id("e")));
  EXPECT_FALSE(constraint.accept(1));
  EXPECT_FALSE(constraint.accept(100'000));
  EXPECT_TRUE(constraint.accept(id("x")));
  EXPECT_TRUE(constraint.finished());
  EXPECT_EQ(allowed(constraint, 9), (Texts{""}));
  EXPECT_TRUE(constraint.accept(kEndToken));
}

TEST_F(ConstraintTest, CopiesGoTheirOwnWays) {
  CompiledGrammar compiled = compiled_of(*grammar_of_regex("(ab|ac)*"), vocabulary_);
  Constraint first(compiled);
  ASSERT_TRUE(first.accept(id("a")));
  Constraint second = first;
  ASSERT_TRUE(second.accept(id("b")));
  EXPECT_TRUE(second.complete());
  EXPECT_FALSE(first.complete());
  EXPECT_EQ(allowed(first, 9), (Texts{"b", "c"}));
}

// With two tokens left a third letter must not come; the long literal is worth one token, not four bytes.
TEST_F(ConstraintTest, KeepsEnoughTokensToClose) {
  CompiledGrammar compiled = compiled_of(*grammar_of_regex("[xy]*name"), vocabulary_);
  Constraint constraint(compiled);
  EXPECT_EQ(constraint.tokens_to_close(), 1);
  EXPECT_EQ(allowed(constraint, 2), (Texts{"x", "y", "name", "na"}));
  EXPECT_EQ(allowed(constraint, 1), (Texts{"name"}));
  EXPECT_EQ(allowed(constraint, 0), Texts{});
  EXPECT_EQ(allowed(constraint, 9), (Texts{"n", "x", "y", "name", "na"}));
}

TEST_F(ConstraintTest, MasksOfOldGenerationsOutliveTheirTable) {
  CompiledGrammar compiled = compiled_of(json_grammar(), vocabulary_, 1);  // every constraint has a table of its own
  Constraint first(compiled);
  ASSERT_TRUE(first.accept(id("{\"")));
  Constraint second(compiled);
  EXPECT_EQ(allowed(second, 100), (Texts{"{", "{\""}));
  EXPECT_TRUE(first.accept(id("name")));
  EXPECT_NE(compiled.masks(), compiled.masks());
}

TEST_F(ConstraintTest, BytesThatAreNoTokensAreNotNeeded) {
  tokens_[2 + 'z'] = "zz";
  vocabulary_ = trie_of(tokens_);
  CompiledGrammar compiled = compiled_of(grammar_of_regex("[z{]+|a"), vocabulary_);
  EXPECT_EQ(allowed(Constraint(compiled), 9), (Texts{"a", "{", "a"}));
  const auto impossible = CompiledGrammar::create(*grammar_of_regex("az"), vocabulary_);
  ASSERT_FALSE(impossible.ok());
  EXPECT_NE(impossible.error().message.find("needs bytes that are no tokens"), std::string::npos);
  EXPECT_FALSE(TokenTrie::create(5, [](TokenId) { return std::string_view("a"); }, {-1}).ok());
}

TEST_F(ConstraintTest, TokensWithTheSameBytesAreAllowedTogether) {
  tokens_.push_back("true");
  vocabulary_ = trie_of(tokens_);
  CompiledGrammar compiled = compiled_of(*grammar_of_regex("true"), vocabulary_);
  EXPECT_EQ(allowed(Constraint(compiled), 9), (Texts{"t", "true", "tr", "true"}));
}

TEST_F(ConstraintTest, CacheKeepsTheLatestAndPassesOnErrors) {
  GrammarCache cache(vocabulary_, 2);
  const GrammarSource a{GrammarSource::Kind::regex, "a"}, b{GrammarSource::Kind::regex, "b"};
  const GrammarSource c{GrammarSource::Kind::gbnf, "root ::= \"a\""}, json{};
  const auto compiled_a = *cache.get(a);
  const auto compiled_b = *cache.get(b);
  EXPECT_EQ(*cache.get(a), compiled_a);
  EXPECT_FALSE(cache.get({GrammarSource::Kind::schema, "{"}).ok());
  ASSERT_TRUE(cache.get(c).ok());  // b leaves: a was used after it
  EXPECT_EQ(*cache.get(a), compiled_a);
  EXPECT_NE(*cache.get(b), compiled_b);
  EXPECT_TRUE(cache.get(json).ok());
}

}  // namespace
}  // namespace quire
