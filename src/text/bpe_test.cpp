#include "text/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>

namespace quire {
namespace {

// All bytes, then what the merges make.
Vocab vocab_with(std::vector<std::string> merges) {
  Vocab vocab;
  vocab.model = "gpt2";
  for (int b = 0; b < 256; ++b) vocab.tokens.push_back(alphabet_from_bytes(std::string(1, static_cast<char>(b))));
  for (const std::string& merge : merges) {
    std::string merged = merge;
    merged.erase(merge.find(' ', 1), 1);
    if (std::find(vocab.tokens.begin(), vocab.tokens.end(), merged) == vocab.tokens.end()) {
      vocab.tokens.push_back(merged);
    }
  }
  vocab.merges = std::move(merges);
  return vocab;
}

std::vector<std::string> encode(const Vocab& vocab, std::string_view text, std::string_view pre = "gpt-2") {
  auto bpe = Bpe::create(vocab, *Pretokenizer::create(pre));
  if (!bpe.ok()) return {bpe.error().message};
  TextEncoder::Work work;
  (*bpe)->encode(text, true, work);
  std::vector<std::string> tokens;
  for (const TokenId id : work.ids) tokens.push_back(bytes_from_alphabet(vocab.tokens[static_cast<std::size_t>(id)]));
  return tokens;
}

using Tokens = std::vector<std::string>;

TEST(BytesAlphabet, SpellsEveryByteOnceAndBack) {
  std::string all;
  for (int b = 0; b < 256; ++b) all += static_cast<char>(b);
  EXPECT_EQ(alphabet_from_bytes(" A\n"), "ĠAĊ");
  EXPECT_EQ(alphabet_from_bytes("\xAD"), "Ń");
  EXPECT_EQ(bytes_from_alphabet(alphabet_from_bytes(all)), all);
  EXPECT_EQ(bytes_from_alphabet("日a"), "日a");
}

TEST(Bpe, MergesInTheOrderOfTraining) {
  EXPECT_EQ(encode(vocab_with({"b c", "a b"}), "abc"), (Tokens{"a", "bc"}));
  EXPECT_EQ(encode(vocab_with({"a b", "b c"}), "abc"), (Tokens{"ab", "c"}));
}

TEST(Bpe, OfEqualPairsTheLeftmostMergesFirst) {
  EXPECT_EQ(encode(vocab_with({"a a"}), "aaaaa"), (Tokens{"aa", "aa", "a"}));
}

TEST(Bpe, TheFirstOfTwoEqualMergesCounts) {
  EXPECT_EQ(encode(vocab_with({"a b", "b c", "a b"}), "abc"), (Tokens{"ab", "c"}));
}

TEST(Bpe, WholeWordsGoBeforeMergesWhereTheNameSaysSo) {
  Vocab vocab = vocab_with({"a b"});
  vocab.tokens.push_back("abc");
  EXPECT_EQ(encode(vocab, "abc", "gpt-2"), (Tokens{"ab", "c"}));
  EXPECT_EQ(encode(vocab, "abc", "llama-bpe"), (Tokens{"abc"}));
}

TEST(Bpe, AMergeMayLeadThroughWhatIsNoToken) {
  Vocab vocab = vocab_with({"a b", "ab c"});
  std::erase(vocab.tokens, "ab");
  EXPECT_EQ(encode(vocab, "abc"), (Tokens{"abc"}));
  EXPECT_EQ(encode(vocab, "abd"), (Tokens{"a", "b", "d"}));
}

TEST(Bpe, BytesThatTheVocabularyLacksAreLeftOut) {
  Vocab vocab = vocab_with({});
  std::erase(vocab.tokens, "b");
  EXPECT_EQ(encode(vocab, "abc"), (Tokens{"a", "c"}));
}

TEST(Bpe, AMergeWithoutTwoPartsIsAnError) {
  for (const std::string bad : {"ab", "", "a ", " "}) {
    Vocab vocab = vocab_with({});
    vocab.merges = {"a b", bad};
    const auto bpe = Bpe::create(vocab, *Pretokenizer::create("gpt-2"));
    ASSERT_FALSE(bpe.ok()) << bad;
    EXPECT_EQ(bpe.error().code, Errc::bad_file);
    EXPECT_NE(bpe.error().message.find("merge 1"), std::string::npos) << bpe.error().message;
  }
}

TEST(Bpe, BrokenTextIsReadAsLlamaCppReadsIt) {
  const auto text_of = [](std::string_view bytes) {
    std::string text;
    for (const auto& token : encode(vocab_with({}), bytes)) text += token;
    return text;
  };
  EXPECT_EQ(text_of("a\xFFz"), "a\uFFFDz");
  EXPECT_EQ(text_of("\xE2\x82"), "\uFFFD\uFFFD");
  EXPECT_EQ(text_of("\xC1\x81"), "A");                                 // overlong
  EXPECT_EQ(text_of("\xED\xA0\x80"), "\xED\xA0\x80");                  // a surrogate
  EXPECT_EQ(text_of("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // above U+10FFFF
}

// The definition itself: find the best pair, merge its leftmost occurrence, begin again.
Tokens merge_naively(const std::vector<std::string>& merges, std::string_view word) {
  Tokens symbols;
  for (const char c : word) symbols.emplace_back(1, c);
  std::map<std::string, std::size_t> ranks;
  for (std::size_t i = 0; i < merges.size(); ++i) ranks.try_emplace(merges[i], i);
  while (true) {
    std::size_t best = merges.size(), at = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ranks.find(symbols[i] + " " + symbols[i + 1]);
      if (found != ranks.end() && found->second < best) best = found->second, at = i;
    }
    if (best == merges.size()) return symbols;
    symbols[at] += symbols[at + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(Bpe, AgreesWithTheDefinitionOnRandomMerges) {
  std::mt19937 random(1);
  const auto below = [&](std::size_t n) { return std::size_t{random()} % n; };
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> made = {"a", "b", "c"}, merges;
    for (int i = 0; i < 12; ++i) {
      const std::string left = made[below(made.size())], right = made[below(made.size())];
      made.push_back(left + right);
      merges.push_back(left + " " + right);
    }
    std::shuffle(merges.begin(), merges.end(), random);
    std::string word;
    while (word.size() < 30) word += static_cast<char>('a' + below(3));
    ASSERT_EQ(encode(vocab_with(merges), word), merge_naively(merges, word)) << word;
  }
}

TEST(Bpe, AMillionLettersWithoutABreakTakeNoTime) {
  const Vocab vocab = vocab_with({"a a", "aa aa", "aaaa aaaa"});
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(encode(vocab, std::string(1'000'000, 'a')).size(), 125'000u);
  // Quadratic, this would be hours; the bound leaves room for sanitizers.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace quire
