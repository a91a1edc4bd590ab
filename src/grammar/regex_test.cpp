#include <regex>

#include "grammar/test_support.h"

namespace quire {
namespace {

using namespace testing_support;

// Patterns that std::regex reads the same way.
constexpr const char* kPatterns[] = {
    "abc",
    "a|bc|",
    "(a|b)*c",
    "a+b?c{2}",
    "a{1,3}b{0,2}c{1,}",
    "[a-c]+[^a-c]",
    "(?:ab)+|c(a|b)?c",
    "\\d{2}-\\d+",
    "\\w+\\s\\w*",
    "[\\d\\-x]+",
    "a.c",
    "^ab$",
    "\\D\\W\\S",
    "(a*)*b",
    "((a|ab)(c|bcd))*",
    "\\x61\\u0062c",
    "a*?b+?",
    "\\(\\[\\{\\.\\\\",
    "",
};

TEST(Regex, AgreesWithTheStandardLibrary) {
  std::mt19937 random(7);
  const std::string alphabet = "abcdx1-9 _.([{\\\n";
  for (const char* pattern : kPatterns) {
    Automaton automaton = automaton_of(grammar_of_regex(pattern));
    const std::regex expected(pattern);
    int matched = 0;
    for (int i = 0; i < 3000; ++i) {
      std::string text;
      const std::size_t length = random() % 7;
      const std::size_t letters = i % 2 == 0 ? 4 : alphabet.size();
      for (std::size_t k = 0; k < length; ++k) text += alphabet[random() % letters];
      const bool matches = std::regex_match(text, expected);
      matched += matches ? 1 : 0;
      ASSERT_EQ(accepts(automaton, text), matches) << "'" << pattern << "' on '" << text << "'";
    }
    if (std::string(pattern).find_first_of("-(x") == std::string::npos) {
      EXPECT_GT(matched, 0) << pattern;
    }
  }
}

TEST(Regex, WhatItGeneratesMatches) {
  const std::vector<std::string> tokens = small_vocabulary();
  const auto vocabulary = trie_of(tokens);
  std::mt19937 random(3);
  for (const char* pattern : kPatterns) {
    CompiledGrammar compiled = compiled_of(grammar_of_regex(pattern).value(), vocabulary);
    const std::regex expected(pattern);
    for (int i = 0; i < 50; ++i) {
      const auto text = random_text(compiled, *vocabulary, 12, random);
      ASSERT_TRUE(text.has_value()) << pattern;
      // std::regex reads bytes; those of other characters are beside its point.
      if (std::all_of(text->begin(), text->end(), [](char c) { return c >= 0; })) {
        ASSERT_TRUE(std::regex_match(*text, expected)) << "'" << pattern << "' gave '" << *text << "'";
      }
    }
  }
}

TEST(Regex, KnowsCharactersOutsideAscii) {
  Automaton a = automaton_of(grammar_of_regex("[α-ω]+\\u{1F600}.[^a]"));
  EXPECT_TRUE(accepts(a, "αβγ\xF0\x9F\x98\x80日é"));
  EXPECT_FALSE(accepts(a, "αβγ\xF0\x9F\x98\x80日a"));
  EXPECT_FALSE(accepts(a, "αβγ\xF0\x9F\x98\x80日"));
}

TEST(Regex, RefusesWhatItDoesNotDo) {
  const std::pair<const char*, const char*> cases[] = {
      {"(a", "no closing ')'"},
      {"a)", "')' closes nothing"},
      {"*a", "'*' has nothing before it"},
      {"a**", "'*' has nothing before it"},
      {"[a", "no closing ']'"},
      {"[b-a]", "the lesser first"},
      {"[\\d-z]", "needs two characters"},
      {"a{2,1}", "was expected"},
      {"a{x}", "was expected"},
      {"(?=a)", "(?= is not supported"},
      {"(?<!a)b", "(?< is not supported"},
      {"(a)\\1", "\\1 is not supported"},
      {"\\bword", "\\b is not supported"},
      {"\\p{L}", "\\p is not supported"},
      {"a^b", "'^' is supported only at the ends"},
      {"(^a)", "'^' within a group is not supported"},
      {"a++", "not supported"},
      {"a\\", "escapes nothing"},
      {"[[:alpha:]]", "not supported"},
      {"[]", "not supported"},
      {"\\uD800", "make a character"},
      {"(a{500}){1000}", "too large"},
  };
  for (const auto& [pattern, message] : cases) {
    EXPECT_NE(message_of(grammar_of_regex(pattern)).find(message), std::string::npos)
        << pattern << "\nsays: " << message_of(grammar_of_regex(pattern));
  }
}

}  // namespace
}  // namespace quire
