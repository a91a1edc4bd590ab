#include "text/pretokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace quire {
namespace {

using Words = std::vector<std::string>;

Words split(std::string_view name, std::string_view text) {
  const auto pretokenizer = Pretokenizer::create(name);
  if (!pretokenizer.ok()) return {pretokenizer.error().message};
  Words words;
  pretokenizer->split(text,
                      [&](std::size_t begin, std::size_t end) { words.emplace_back(text.substr(begin, end - begin)); });
  return words;
}

TEST(Pretokenizer, Gpt2KeepsASpaceWithTheWordThatFollows) {
  EXPECT_EQ(split("gpt-2", "Hello  big world's 123!"), (Words{"Hello", " ", " big", " world", "'s", " 123", "!"}));
}

TEST(Pretokenizer, ContractionsInUpperCaseDependOnTheName) {
  EXPECT_EQ(split("gpt-2", "I'LL"), (Words{"I", "'", "LL"}));
  EXPECT_EQ(split("llama-bpe", "I'LL"), (Words{"I", "'LL"}));
  EXPECT_EQ(split("qwen2", "I'LL"), (Words{"I", "'LL"}));
}

TEST(Pretokenizer, DigitsDependOnTheName) {
  EXPECT_EQ(split("gpt-2", "a 12345"), (Words{"a", " 12345"}));
  EXPECT_EQ(split("smollm", "a 12345"), (Words{"a", " ", "1", "2", "3", "4", "5"}));
  EXPECT_EQ(split("llama-bpe", "a 12345"), (Words{"a", " ", "123", "45"}));
  EXPECT_EQ(split("qwen2", "a 12345"), (Words{"a", " ", "1", "2", "3", "4", "5"}));
  EXPECT_EQ(split("default", "a 12345"), (Words{"a", " ", "123", "45"}));
}

// A part that an earlier pattern cut off is a text of its own: the spaces before the digit are
// at its end, and none is kept back.
TEST(Pretokenizer, LookAheadStopsAtAnEarlierCut) {
  EXPECT_EQ(split("smollm", "a   1"), (Words{"a", "   ", "1"}));
  EXPECT_EQ(split("smollm", "a   b"), (Words{"a", "  ", " b"}));
}

TEST(Pretokenizer, NewlinesDependOnTheName) {
  EXPECT_EQ(split("gpt-2", "a!\n\n  b"), (Words{"a", "!", "\n\n ", " b"}));
  EXPECT_EQ(split("llama-bpe", "a!\n\n  b"), (Words{"a", "!\n\n", " ", " b"}));
}

TEST(Pretokenizer, SpacesAndLettersAreUnicodes) {
  EXPECT_EQ(split("gpt-2", "\u3000\u3000日本"), (Words{"\u3000", "\u3000", "日本"}));
  EXPECT_EQ(split("gpt-2", "a\u180E"), (Words{"a", "\u180E"}));      // no space any more
  EXPECT_EQ(split("gpt-2", "a\U00031350"), (Words{"a\U00031350"}));  // a letter since Unicode 15
}

TEST(Pretokenizer, NoNameIsDefault) { EXPECT_EQ(split("", "a=1234"), split("default", "a=1234")); }

TEST(Pretokenizer, AnUnknownNameIsNamedWithTheKnownOnes) {
  const auto unknown = Pretokenizer::create("klingon");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, Errc::unsupported);
  EXPECT_NE(unknown.error().message.find("klingon"), std::string::npos);
  EXPECT_NE(unknown.error().message.find("smollm"), std::string::npos);
}

// Ten times PCRE2's own limit of backtracking steps.
TEST(Pretokenizer, NoRunIsTooLong) {
  const std::string text = std::string(100'000'000, ' ') + "a";
  const auto pretokenizer = Pretokenizer::create("llama-bpe");
  ASSERT_TRUE(pretokenizer.ok());
  std::vector<std::size_t> lengths;
  pretokenizer->split(text, [&](std::size_t begin, std::size_t end) { lengths.push_back(end - begin); });
  EXPECT_EQ(lengths, (std::vector<std::size_t>{99'999'999, 2}));
}

}  // namespace
}  // namespace quire
