#include "text/special_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>

namespace quire {
namespace {

using Found = std::vector<std::pair<std::size_t, TokenId>>;

SpecialMatcher matcher_of(const std::vector<std::string>& tokens) {
  SpecialMatcher matcher;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    matcher.add(tokens[i], static_cast<TokenId>(i), SpecialMatcher::When::always);
  }
  return matcher;
}

Found find(const SpecialMatcher& matcher, std::string_view text, bool parsing = true) {
  Found found;
  for (const auto& match : matcher.find(text, parsing)) found.emplace_back(match.begin, match.id);
  return found;
}

TEST(SpecialMatcher, TheLongestWinsWhereverItStands) {
  EXPECT_EQ(find(matcher_of({"xab", "abcd"}), "xabcd"), (Found{{1, 1}}));
  EXPECT_EQ(find(matcher_of({"ab", "bcd", "a"}), "abcd"), (Found{{0, 2}, {1, 1}}));
}

TEST(SpecialMatcher, OfOneTokenTheLeftmostWins) {
  EXPECT_EQ(find(matcher_of({"aa"}), "aaaaa"), (Found{{0, 0}, {2, 0}}));
  EXPECT_EQ(find(matcher_of({"\n", "\n\n", "\n\n\n"}), "\n\n\n\n\n"), (Found{{0, 2}, {3, 1}}));
}

TEST(SpecialMatcher, SomeAreFoundOnlyWhenParsing) {
  SpecialMatcher matcher;
  matcher.add("<a>", 1, SpecialMatcher::When::only_if_parsing);
  matcher.add("<", 2, SpecialMatcher::When::always);
  EXPECT_EQ(find(matcher, "<a>", true), (Found{{0, 1}}));
  EXPECT_EQ(find(matcher, "<a>", false), (Found{{0, 2}}));
}

TEST(SpecialMatcher, WithoutTokensNothingIsFound) { EXPECT_TRUE(find(SpecialMatcher(), "abc").empty()); }

// The definition: one token after the other, longest first, within what is still free.
Found find_naively(const std::vector<std::string>& tokens, const std::string& text) {
  std::vector<std::size_t> order(tokens.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return tokens[a].size() > tokens[b].size(); });
  std::string rest = text;
  Found found;
  for (const std::size_t i : order) {
    for (std::size_t at; (at = rest.find(tokens[i])) != std::string::npos;) {
      found.emplace_back(at, static_cast<TokenId>(i));
      std::fill_n(rest.begin() + static_cast<std::ptrdiff_t>(at), tokens[i].size(), '\0');
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

TEST(SpecialMatcher, AgreesWithTheDefinitionOnRandomTokens) {
  std::mt19937 random(2);
  const auto word = [&](std::size_t longest) {
    std::string s;
    for (std::size_t n = 1 + random() % longest; n > 0; --n) s += static_cast<char>('a' + random() % 2);
    return s;
  };
  for (int round = 0; round < 500; ++round) {
    std::vector<std::string> tokens;
    for (int i = 0; i < 5; ++i) {
      if (const std::string token = word(5); std::find(tokens.begin(), tokens.end(), token) == tokens.end()) {
        tokens.push_back(token);
      }
    }
    const std::string text = word(40);
    ASSERT_EQ(find(matcher_of(tokens), text), find_naively(tokens, text)) << text;
  }
}

TEST(SpecialMatcher, LongRunsTakeNoTime) {
  std::vector<std::string> runs;
  for (std::size_t n = 1; n <= 31; ++n) runs.push_back(std::string(n, '\n'));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(find(matcher_of(runs), std::string(1'000'000, '\n')).size(), 32'259u);  // 32,258 x 31, then 2
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace quire
