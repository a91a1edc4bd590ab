#include "text/sentencepiece.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace quire {
namespace {

using Tokens = std::vector<std::string>;

Vocab vocab_with(const std::vector<std::pair<std::string, float>>& pieces) {
  Vocab vocab;
  vocab.model = "llama";
  for (const auto& [piece, score] : pieces) {
    vocab.tokens.push_back(piece);
    vocab.scores.push_back(score);
  }
  return vocab;
}

Tokens encode(const Vocab& vocab, std::string_view text, bool space_prefix = false, bool starts_anew = true) {
  TextEncoder::Work work;
  SentencePiece(vocab, space_prefix).encode(text, starts_anew, work);
  Tokens tokens;
  for (const TokenId id : work.ids) tokens.push_back(vocab.tokens[static_cast<std::size_t>(id)]);
  return tokens;
}

TEST(ByteToken, IsTwoHexDigitsInTheirFrame) {
  EXPECT_EQ(parse_byte_token("<0x00>"), 0);
  EXPECT_EQ(parse_byte_token("<0xfF>"), 255);
  for (const char* bad :
       {"<0x-1>", "<0x+1>", "<0x 1>", "<0x1>", "<0x100>", "<0xG0>", "<0x0G>", "0x41", "", "<0x41", "<0X41>"}) {
    EXPECT_EQ(parse_byte_token(bad), std::nullopt) << bad;
  }
}

TEST(SentencePiece, TheBestScoreMergesFirst) {
  EXPECT_EQ(encode(vocab_with({{"a", 0}, {"b", 0}, {"c", 0}, {"ab", -2}, {"bc", -1}}), "abc"), (Tokens{"a", "bc"}));
  EXPECT_EQ(encode(vocab_with({{"a", 0}, {"b", 0}, {"c", 0}, {"ab", -1}, {"bc", -2}}), "abc"), (Tokens{"ab", "c"}));
}

TEST(SentencePiece, OfEqualScoresTheLeftmostMergesFirst) {
  EXPECT_EQ(encode(vocab_with({{"a", 0}, {"b", 0}, {"c", 0}, {"ab", -1}, {"bc", -1}}), "abc"), (Tokens{"ab", "c"}));
}

TEST(SentencePiece, MergingIsGreedyAndNotTheBestWhole) {
  // "abc" has the best score of all, but no pair leads to it.
  EXPECT_EQ(encode(vocab_with({{"a", 0}, {"b", 0}, {"c", 0}, {"abc", 9}}), "abc"), (Tokens{"a", "b", "c"}));
}

TEST(SentencePiece, SpacesAreMarkedAndMayComeInFront) {
  const Vocab vocab = vocab_with({{"▁", 0}, {"a", 0}, {"▁a", -1}});
  EXPECT_EQ(encode(vocab, "a a"), (Tokens{"a", "▁a"}));
  EXPECT_EQ(encode(vocab, "a a", true), (Tokens{"▁a", "▁a"}));
  EXPECT_EQ(encode(vocab, "a a", true, false), (Tokens{"a", "▁a"}));
}

TEST(SentencePiece, ATokenMayCrossASpace) {
  const Vocab vocab = vocab_with({{"▁", 0}, {">", 0}, {"<", 0}, {"a", 0}, {">▁", -1}, {">▁<", -1}});
  EXPECT_EQ(encode(vocab, "a> <a <"), (Tokens{"a", ">▁<", "a", "▁", "<"}));
}

TEST(SentencePiece, UnknownCharactersBecomeBytesThenUnknown) {
  Vocab vocab = vocab_with({{"<unk>", 0}, {"<0xC3>", 0}, {"<0xA9>", 0}, {"a", 0}});
  EXPECT_EQ(encode(vocab, "aé"), (Tokens{"a", "<0xC3>", "<0xA9>"}));
  EXPECT_EQ(encode(vocab, "a\xC3"), (Tokens{"a", "<0xC3>"}));
  EXPECT_EQ(encode(vocab, "az"), (Tokens{"a"}));
  vocab.unk = 0;
  EXPECT_EQ(encode(vocab, "az"), (Tokens{"a", "<unk>"}));
}

TEST(SentencePiece, AMillionLettersWithoutABreakTakeNoTime) {
  const Vocab vocab = vocab_with({{"a", 0}, {"aa", -1}, {"aaaa", -2}});
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(encode(vocab, std::string(1'000'000, 'a')).size(), 250'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace quire
