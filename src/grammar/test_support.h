// A small vocabulary, and texts drawn at random among what a grammar allows.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/constraint.h"
#include "grammar/grammar.h"

namespace quire::testing_support {

inline constexpr TokenId kEndToken = 0;

// Every byte, then pieces as tokenizers have them: across borders, halves of characters, the same bytes twice.
inline std::vector<std::string> small_vocabulary() {
  std::vector<std::string> tokens{"", ""};  // the end token, a control token
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* piece :
       {"{\"",  "\":",      "\": \"",   "\", \"",       "\"}",     "\"},", "\"]",   "}}",    "]}",   "},",   "},{",
        "[{",   "[\"",      "\",\"",    "\":[",         "\":{",    ", ",   ": ",    "  ",    "the",  " the", "name",
        "na",   "me",       "age",      "item",         "items",   "12",   "123",   "0.5",   "1e",   "true", "tr",
        "ue",   "false",    "null",     "\\n",          "\\u",     "\\\"", "a",     "aa",    "aaaa", "abc",  "\xC3\xA9",
        "\xC3", "\xE2\x82", "\x82\xAC", "\xF0\x9F\x98", "\x80\"",  "id\"", "value", "2024",  "-0",   "00",   "://",
        "\n\n", "\t",       "child",    "children",     "next\":", "}\n",  "\"}]",  "true}", "1,"}) {
    tokens.emplace_back(piece);
  }
  return tokens;
}

inline std::shared_ptr<const TokenTrie> trie_of(const std::vector<std::string>& tokens) {
  auto trie = TokenTrie::create(
      tokens.size(), [&](TokenId id) -> std::string_view { return tokens[static_cast<std::size_t>(id)]; }, {kEndToken});
  EXPECT_TRUE(trie.ok()) << trie.error().message;
  return std::make_shared<const TokenTrie>(std::move(trie).value());
}

inline bool accepts(Automaton& automaton, std::string_view text) {
  Automaton::State state = automaton.start();
  for (const char byte : text) state = automaton.step(state, static_cast<std::uint8_t>(byte));
  return automaton.complete(state);
}

// An Automaton of a grammar that must compile.
inline Automaton automaton_of(Result<Grammar> grammar) {
  if (!grammar.ok()) {
    ADD_FAILURE() << grammar.error().message;
    grammar = json_grammar();
  }
  return Automaton(std::make_shared<const Grammar>(std::move(grammar).value()));
}

inline std::string message_of(const Result<Grammar>& grammar) { return grammar.ok() ? "" : grammar.error().message; }

inline CompiledGrammar compiled_of(const Result<Grammar>& grammar, std::shared_ptr<const TokenTrie> vocabulary,
                                   std::size_t most_bytes = 64 << 20) {
  EXPECT_TRUE(grammar.ok()) << message_of(grammar);
  auto compiled = CompiledGrammar::create(*grammar, std::move(vocabulary), most_bytes);
  EXPECT_TRUE(compiled.ok()) << compiled.error().message;
  return std::move(compiled).value();
}

inline std::vector<std::uint64_t> empty_mask(const TokenTrie& vocabulary) {
  return std::vector<std::uint64_t>((vocabulary.vocabulary() + 63) / 64);
}

inline std::vector<TokenId> tokens_in(const std::vector<std::uint64_t>& mask) {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < mask.size() * 64; ++i) {
    if ((mask[i / 64] >> (i % 64) & 1) != 0) tokens.push_back(static_cast<TokenId>(i));
  }
  return tokens;
}

inline std::optional<TokenId> random_token(const std::vector<std::uint64_t>& mask, std::mt19937& random) {
  std::size_t count = 0;
  for (const std::uint64_t word : mask) count += static_cast<std::size_t>(std::popcount(word));
  if (count == 0) return std::nullopt;
  std::size_t skip = random() % count;
  for (std::size_t i = 0;; ++i) {
    const auto here = static_cast<std::size_t>(std::popcount(mask[i]));
    if (skip >= here) {
      skip -= here;
      continue;
    }
    std::uint64_t word = mask[i];
    for (; skip > 0; --skip) word &= word - 1;
    return static_cast<TokenId>(i * 64 + static_cast<std::size_t>(std::countr_zero(word)));
  }
}

// Draws among the allowed tokens until the end token or the limit; nothing if it gets stuck or is not complete.
inline std::optional<std::string> random_text(CompiledGrammar& compiled, const TokenTrie& vocabulary,
                                              std::int64_t limit, std::mt19937& random) {
  Constraint constraint(compiled);
  std::vector<std::uint64_t> mask = empty_mask(vocabulary);
  std::string text;
  for (std::int64_t left = limit; left >= 0; --left) {
    constraint.mask(left, mask);
    const auto token = random_token(mask, random);
    if (!token) break;
    const auto ends = vocabulary.end_tokens();
    if (std::find(ends.begin(), ends.end(), *token) != ends.end()) return text;
    if (!constraint.accept(*token)) break;
    text += vocabulary.bytes(*token);
  }
  ADD_FAILURE() << "stuck or not complete after: " << text;
  return std::nullopt;
}

}  // namespace quire::testing_support
