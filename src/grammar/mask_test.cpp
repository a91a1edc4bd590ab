// Masks against the question asked of each token alone, on grammars made at random.
#include <algorithm>

#include "grammar/test_support.h"

namespace quire {
namespace {

using namespace testing_support;

// Rules r0 (root) to r3; a rule calls itself or earlier ones only behind a byte, so none begins with itself.
std::string random_gbnf(std::mt19937& random) {
  const auto pick = [&](std::size_t n) { return random() % n; };
  const char* atoms[] = {"\"a\"",      "\"ab\"", "[a-c]", "\"b\"?", "[^\\x00-\\x60]",
                         "\"c\"{0,3}", "\"a\"*", "[bé€]", "\"\""};
  std::string source;
  for (std::size_t rule = 0; rule < 4; ++rule) {
    source += (rule == 0 ? std::string("root") : "r" + std::to_string(rule)) + " ::= ";
    const std::size_t options = 1 + pick(3);
    for (std::size_t i = 0; i < options; ++i) {
      if (i > 0) source += " | ";
      if (rule < 3 && pick(2) == 0) source += "r" + std::to_string(rule + 1) + (pick(3) == 0 ? "* " : " ");
      source += "[a-c] ";
      for (std::size_t k = pick(3); k > 0; --k) source += std::string(atoms[pick(std::size(atoms))]) + " ";
      if (pick(3) == 0)
        source += (pick(2) == 0 ? "root" : "r" + std::to_string(1 + pick(3))) + std::string(pick(2) == 0 ? "? " : " ");
      for (std::size_t k = pick(3); k > 0; --k) source += std::string(atoms[pick(std::size(atoms))]) + " ";
    }
    source += "| \"c\"\n";
  }
  return source;
}

std::vector<std::string> random_vocabulary(std::mt19937& random) {
  std::vector<std::string> tokens{"", ""};
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  const std::string letters = "aaabbbccdé€";
  for (int i = 0; i < 150; ++i) {
    std::string token;
    for (std::size_t k = 2 + random() % 5; k > 0; --k) token += letters[random() % letters.size()];
    tokens.push_back(token);
  }
  return tokens;
}

// By a table of its own, which shares no mask with the tested one.
std::vector<TokenId> allowed_one_by_one(MaskTable& truth, MaskTable::State state, std::int64_t remaining) {
  std::vector<TokenId> allowed;
  Automaton& automaton = truth.automaton();
  for (TokenId token = 0; static_cast<std::size_t>(token) < truth.vocabulary().vocabulary(); ++token) {
    const std::string_view bytes = truth.vocabulary().bytes(token);
    if (token == kEndToken) {
      if (automaton.complete(state)) allowed.push_back(token);
      continue;
    }
    if (bytes.empty() || remaining <= 0) continue;
    MaskTable::State to = state;
    for (const char byte : bytes) to = automaton.step(to, static_cast<std::uint8_t>(byte));
    if (to != Automaton::kDead && truth.tokens_to_close(to) < remaining) allowed.push_back(token);
  }
  return allowed;
}

TEST(Mask, IsWhatEachTokenAloneSays) {
  std::mt19937 random(11);
  int masks = 0;
  for (int seed = 0; seed < 25; ++seed) {
    const std::string source = random_gbnf(random);
    const Result<Grammar> grammar = parse_gbnf(source);
    ASSERT_TRUE(grammar.ok()) << source << grammar.error().message;
    const auto vocabulary = trie_of(random_vocabulary(random));
    CompiledGrammar compiled = compiled_of(*grammar, vocabulary);
    MaskTable truth(std::make_shared<const Grammar>(*grammar), vocabulary);
    std::vector<std::uint64_t> mask = empty_mask(*vocabulary);
    for (int run = 0; run < 3; ++run) {
      Constraint constraint(compiled);
      MaskTable::State state = truth.automaton().start();
      const std::int64_t limit = constraint.tokens_to_close() + static_cast<std::int64_t>(random() % 12);
      for (std::int64_t left = limit; left >= 0; --left) {
        for (const std::int64_t remaining : {left, std::int64_t{1000}}) {
          constraint.mask(remaining, mask);
          ASSERT_EQ(tokens_in(mask), allowed_one_by_one(truth, state, remaining)) << source;
          ++masks;
        }
        constraint.mask(left, mask);
        const std::vector<TokenId> allowed = tokens_in(mask);
        ASSERT_FALSE(allowed.empty()) << source;
        const TokenId token = allowed[random() % allowed.size()];
        ASSERT_TRUE(constraint.accept(token));
        if (token == kEndToken) break;
        for (const char byte : vocabulary->bytes(token))
          state = truth.automaton().step(state, static_cast<std::uint8_t>(byte));
      }
      ASSERT_TRUE(constraint.complete()) << source;
    }
  }
  EXPECT_GT(masks, 500);
}

}  // namespace
}  // namespace quire
