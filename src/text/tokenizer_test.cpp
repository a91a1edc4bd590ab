#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "text/bpe.h"

namespace quire {
namespace {

using Ids = std::vector<TokenId>;
using Special = Tokenizer::Special;

Vocab byte_vocab() {
  Vocab vocab;
  vocab.model = "gpt2";
  vocab.pre = "gpt-2";
  for (int b = 0; b < 256; ++b) vocab.tokens.push_back(alphabet_from_bytes(std::string(1, static_cast<char>(b))));
  return vocab;
}

// Ids 256 to 259: a control token, a user-defined one, a BOS and an EOS.
Vocab special_vocab() {
  Vocab vocab = byte_vocab();
  vocab.types.resize(256, TokenType::normal);
  const auto add = [&](const char* text, TokenType type) {
    vocab.tokens.push_back(text);
    vocab.types.push_back(type);
  };
  add("<c>", TokenType::control);
  add("[u]", TokenType::user_defined);
  add("<bos>", TokenType::control);
  add("<end>", TokenType::control);
  vocab.bos = 258;
  vocab.eos = 259;
  return vocab;
}

Vocab spm_vocab() {
  Vocab vocab;
  vocab.model = "llama";
  vocab.tokens = {"<unk>", "<s>", "</s>", "▁", "a", "▁a", "<0x41>", "b"};
  vocab.scores = {0, 0, 0, -1, -1, -1, 0, -1};
  vocab.types = {TokenType::unknown, TokenType::control, TokenType::control, TokenType::normal,
                 TokenType::normal,  TokenType::normal,  TokenType::byte,    TokenType::unused};
  return vocab;
}

Tokenizer create(Vocab vocab) {
  auto tokenizer = Tokenizer::create(std::move(vocab));
  EXPECT_TRUE(tokenizer.ok()) << (tokenizer.ok() ? "" : tokenizer.error().message);
  return *std::move(tokenizer);
}

std::string error_of(Vocab vocab) {
  const auto tokenizer = Tokenizer::create(std::move(vocab));
  return tokenizer.ok() ? "no error" : tokenizer.error().message;
}

Ids ids_of(std::string_view bytes) {
  Ids ids;
  for (const char c : bytes) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

TEST(Tokenizer, ControlTokensAreFoundOnlyWhenParsingUserDefinedOnesAlways) {
  const Tokenizer tokenizer = create(special_vocab());
  EXPECT_EQ(tokenizer.encode("<c>[u]", false, Special::parse), (Ids{256, 257}));
  Ids as_text = ids_of("<c>");
  as_text.push_back(257);
  EXPECT_EQ(tokenizer.encode("<c>[u]", false, Special::as_text), as_text);
}

TEST(Tokenizer, GuardedTextHasNoControlTokens) {
  Vocab vocab = special_vocab();
  vocab.tokens.push_back("<c>x<e");  // hides a token, and half of another
  vocab.types.push_back(TokenType::control);
  const Tokenizer tokenizer = create(std::move(vocab));
  const std::string guard = "\xEF\xB7\x90";
  const auto as_said = [&](std::string_view text) { return tokenizer.encode(text, false, Special::as_text); };
  for (const char* text :
       {"", "plain", "<c>", "a<c><c>b", "<bos<c>>", "<c>x<end>", "[u]<c>[u]", "<<c>", "<c", "<c>x<e"}) {
    const std::string safe = tokenizer.guarded(text, guard);
    EXPECT_EQ(tokenizer.encode_guarded(safe, guard), as_said(text)) << text;
    // What is around it is parsed still.
    Ids expected{256};
    const Ids inside = as_said(text);
    expected.insert(expected.end(), inside.begin(), inside.end());
    expected.push_back(259);
    EXPECT_EQ(tokenizer.encode_guarded("<c>" + safe + "<end>", guard), expected) << text;
  }
  EXPECT_EQ(tokenizer.guarded("[u] plain", guard), "[u] plain") << "user-defined tokens are text that anybody may say";
  EXPECT_EQ(tokenizer.encode_guarded("a<c>b", guard), tokenizer.encode("a<c>b", false, Special::parse));
}

TEST(Tokenizer, BosAndEosAreAddedWhereTheFileSaysSo) {
  Vocab vocab = special_vocab();
  EXPECT_EQ(create(vocab).encode("A", true, Special::parse), (Ids{'A'}));
  vocab.add_bos = vocab.add_eos = true;
  EXPECT_EQ(create(vocab).encode("A", true, Special::parse), (Ids{258, 'A', 259}));
  EXPECT_EQ(create(vocab).encode("", true, Special::parse), (Ids{258, 259}));
  EXPECT_EQ(create(vocab).encode("A", false, Special::parse), (Ids{'A'}));
}

TEST(Tokenizer, WhereTheFileIsSilentTheKindDecides) {
  Vocab vocab = special_vocab();
  vocab.pre = "llama-bpe";
  EXPECT_EQ(create(vocab).encode("A", true, Special::parse), (Ids{258, 'A'}));
  vocab.add_bos = false;
  EXPECT_EQ(create(vocab).encode("A", true, Special::parse), (Ids{'A'}));
  vocab.add_bos = std::nullopt;
  vocab.bos = std::nullopt;
  EXPECT_EQ(create(vocab).encode("A", true, Special::parse), (Ids{'A'}));

  const Tokenizer spm = create(spm_vocab());
  EXPECT_EQ(spm.encode("a", true, Special::parse), (Ids{1, 5}));
  EXPECT_EQ(spm.eos(), 2);
}

TEST(Tokenizer, ASpaceGoesBeforeTextThatFollowsASpecialToken) {
  const Tokenizer spm = create(spm_vocab());
  EXPECT_EQ(spm.encode("a<s>a a", false, Special::parse), (Ids{5, 1, 5, 5}));
  Vocab without = spm_vocab();
  without.add_space_prefix = false;
  EXPECT_EQ(create(std::move(without)).encode("a<s>a a", false, Special::parse), (Ids{4, 1, 4, 5}));
}

TEST(Tokenizer, PiecesShowWhatATokenStandsFor) {
  const Tokenizer bpe = create(special_vocab());
  EXPECT_EQ(bpe.piece(' '), " ");
  EXPECT_EQ(bpe.piece(256), "<c>");
  EXPECT_EQ(bpe.piece(-1), "");
  EXPECT_EQ(bpe.piece(260), "");

  const Tokenizer spm = create(spm_vocab());
  EXPECT_EQ(spm.piece(5), " a");
  EXPECT_EQ(spm.piece(6), "A");
  EXPECT_EQ(spm.piece(7), "");  // unused
}

TEST(Tokenizer, DecodeSkipsControlTokensAndTheAddedSpace) {
  const Tokenizer bpe = create(special_vocab());
  EXPECT_EQ(bpe.decode(Ids{258, ' ', 'A', 257, 256, -5, 1000}), " A[u]");
  const Tokenizer spm = create(spm_vocab());
  EXPECT_EQ(spm.decode(spm.encode("a a", true, Special::parse)), "a a");
  EXPECT_EQ(spm.decode(Ids{1, 3, 5, 6}), " aA");
}

TEST(Tokenizer, AllBytesOfATextComeBack) {
  const Tokenizer tokenizer = create(byte_vocab());
  const std::string text = "Zażółć \t\r\n  gęślą 123 👩‍👩‍👧 \x01 日本 don't";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, true, Special::as_text)), text);
}

TEST(Tokenizer, GenerationEndsAtTokensNamedByIdOrKnownByText) {
  Vocab vocab = special_vocab();
  vocab.tokens.push_back("<|im_end|>");
  vocab.types.push_back(TokenType::normal);
  vocab.tokens.push_back("<|fim_prefix|>");
  vocab.types.push_back(TokenType::user_defined);
  vocab.extra_eog = {256};
  const Tokenizer tokenizer = create(vocab);
  EXPECT_TRUE(tokenizer.is_end_of_generation(256));
  EXPECT_FALSE(tokenizer.is_end_of_generation(257));
  EXPECT_FALSE(tokenizer.is_end_of_generation(258));
  EXPECT_TRUE(tokenizer.is_end_of_generation(259));
  EXPECT_TRUE(tokenizer.is_end_of_generation(260));
  EXPECT_FALSE(tokenizer.is_end_of_generation(261));
  EXPECT_FALSE(tokenizer.is_end_of_generation(-1));
  EXPECT_FALSE(tokenizer.is_end_of_generation(262));
  EXPECT_EQ(tokenizer.eot(), 260);
  // Whatever the file says, these are control tokens.
  EXPECT_TRUE(tokenizer.is_special(260));
  EXPECT_TRUE(tokenizer.is_special(261));
  EXPECT_EQ(tokenizer.encode("<|im_end|>", false, Special::as_text), ids_of("<|im_end|>"));
  EXPECT_EQ(tokenizer.encode("<|im_end|>", false, Special::parse), (Ids{260}));
}

TEST(Tokenizer, FindsATokenByItsSpelling) {
  const Tokenizer tokenizer = create(special_vocab());
  EXPECT_EQ(tokenizer.find("<c>"), 256);
  EXPECT_EQ(tokenizer.find("Ġ"), ' ');
  EXPECT_EQ(tokenizer.find("nowhere"), std::nullopt);
  EXPECT_EQ(tokenizer.size(), 260u);
}

TEST(Tokenizer, EncodesFromSeveralThreads) {
  const Tokenizer tokenizer = create(special_vocab());
  const std::string text = "one [u] two<c>  three\n";
  const Ids expected = tokenizer.encode(text, true, Special::parse);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) wrong[t] += tokenizer.encode(text, true, Special::parse) != expected;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST(BrokenVocab, IsRefusedWithAReason) {
  const auto broken = [](auto change) {
    Vocab vocab = special_vocab();
    change(vocab);
    return error_of(std::move(vocab));
  };
  const auto expect = [&](const std::string& message, std::string_view part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(broken([](Vocab& v) { v.tokens.clear(); }), "empty");
  expect(broken([](Vocab& v) { v.types.pop_back(); }), "259 token types for 260 tokens");
  expect(broken([](Vocab& v) { v.scores.resize(7); }), "7 scores for 260 tokens");
  expect(broken([](Vocab& v) { v.scores.resize(260, std::numeric_limits<float>::quiet_NaN()); }), "token 0");
  expect(broken([](Vocab& v) { v.tokens[7] = "<c>"; }), "tokens 7 and 256 are both '<c>'");
  expect(broken([](Vocab& v) { v.bos = 260; }), "BOS token is 260");
  expect(broken([](Vocab& v) { v.eos = -1; }), "EOS token is -1");
  expect(broken([](Vocab& v) { v.extra_eog = {3, 999}; }), "999");
  expect(broken([](Vocab& v) { v.model = "bert"; }), "'bert'");
  expect(broken([](Vocab& v) { v.pre = "klingon"; }), "'klingon'");
  expect(broken([](Vocab& v) { v.add_bos = true, v.bos = std::nullopt; }), "BOS");
  expect(broken([](Vocab& v) { v.add_eos = true, v.eos = std::nullopt; }), "EOS");
  expect(broken([](Vocab& v) { v.merges = {"nospace"}; }), "merge 0");
  expect(broken([](Vocab& v) { v.types[256] = TokenType::byte; }), "token 256 is a byte");
}

TEST(BrokenVocab, EmptyTokensAndUnknownMergesDoNoHarm) {
  Vocab vocab = special_vocab();
  vocab.tokens.push_back("");
  vocab.types.push_back(TokenType::normal);
  vocab.merges = {"x y", "nobody knows"};
  const Tokenizer tokenizer = create(std::move(vocab));
  EXPECT_EQ(tokenizer.piece(260), "[EMPTY_260]");
  EXPECT_EQ(tokenizer.encode("xy", false, Special::parse), ids_of("xy"));
}

TEST(BrokenVocab, AByteTokenOutOfRangeIsRefused) {
  for (const char* bad : {"<0x-1>", "<0x100>", "41", "<0xZZ>"}) {
    Vocab vocab = spm_vocab();
    vocab.tokens[6] = bad;
    EXPECT_NE(error_of(vocab).find("token 6 is a byte"), std::string::npos) << bad << ": " << error_of(vocab);
  }
}

}  // namespace
}  // namespace quire
