#include "text/stream_decoder.h"

#include <gtest/gtest.h>

#include <random>

#include "text/bpe.h"

namespace quire {
namespace {

TEST(FirstChar, TellsWholeFromBrokenFromUnfinished) {
  using Kind = Utf8Char::Kind;
  const auto expect = [](std::string_view text, Kind kind, std::size_t length) {
    const Utf8Char c = first_char(text);
    EXPECT_EQ(c.kind, kind) << testing::PrintToString(text);
    EXPECT_EQ(c.length, length) << testing::PrintToString(text);
  };
  expect("a\xFF", Kind::valid, 1);
  expect("é.", Kind::valid, 2);
  expect("日", Kind::valid, 3);
  expect("\xF4\x8F\xBF\xBF", Kind::valid, 4);
  expect("\xE6\x97", Kind::incomplete, 2);
  expect("\xF0", Kind::incomplete, 1);
  expect("\x80", Kind::invalid, 1);
  expect("\xC1\x81", Kind::invalid, 1);          // overlong
  expect("\xE0\x9F\xBF", Kind::invalid, 1);      // overlong
  expect("\xED\xA0\x80", Kind::invalid, 1);      // a surrogate
  expect("\xF4\x90\x80\x80", Kind::invalid, 1);  // above U+10FFFF
  expect("\xF0\x9F\x91(", Kind::invalid, 3);     // one U+FFFD for all three
}

TEST(Utf8Stream, HoldsBackWhatIsUnfinished) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xF0\x9F"), "a");
  EXPECT_EQ(stream.push("\x91"), "");
  EXPECT_EQ(stream.push("\x8D!"), "👍!");
  EXPECT_EQ(stream.flush(), "");
}

TEST(Utf8Stream, ReplacesWhatIsProvenBrokenAndWhatNeverEnds) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xE6\x97"), "");
  EXPECT_EQ(stream.push("a\xFF"), "\uFFFDa\uFFFD");
  EXPECT_EQ(stream.push("\xE6"), "");
  EXPECT_EQ(stream.flush(), "\uFFFD");
  EXPECT_EQ(stream.flush(), "");
}

TEST(Utf8Stream, ComesOutTheSameHoweverItIsCut) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::string bytes;
    for (int i = 0; i < 40; ++i) {
      constexpr std::string_view kParts[] = {"a", "é", "日", "👍", "\x80", "\xE6", "\xF0\x9F", "\xFF", "\xED\xA0"};
      bytes += kParts[random() % std::size(kParts)];
    }
    Utf8Stream whole, parts;
    std::string expected = whole.push(bytes);
    expected += whole.flush();
    std::string text;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t length = 1 + random() % 3;
      text += parts.push(std::string_view(bytes).substr(at, length));
      ASSERT_TRUE(is_valid_utf8(text));
      at += length;
    }
    text += parts.flush();
    ASSERT_EQ(text, expected);
  }
}

TEST(StreamDecoder, JoinsCharactersAcrossTokensAndHidesControlTokens) {
  Vocab vocab;
  vocab.model = "gpt2";
  for (const char* bytes : {"a", "\xF0\x9F", "\x91\x8D"}) vocab.tokens.push_back(alphabet_from_bytes(bytes));
  vocab.tokens.push_back("<|im_end|>");
  const auto tokenizer = Tokenizer::create(vocab);
  ASSERT_TRUE(tokenizer.ok());
  StreamDecoder decoder(*tokenizer);
  EXPECT_EQ(decoder.push(0), "a");
  EXPECT_EQ(decoder.push(1), "");
  EXPECT_EQ(decoder.push(3), "");
  EXPECT_EQ(decoder.push(2), "👍");
  EXPECT_EQ(decoder.push(-1) + decoder.push(99), "");
  EXPECT_EQ(decoder.push(1), "");
  EXPECT_EQ(decoder.flush(), "\uFFFD");
}

}  // namespace
}  // namespace quire
