#include "text/vocab.h"

#include <gtest/gtest.h>

#include "support/gguf_builder.h"

namespace quire {
namespace {

using testing_support::GgufBuilder;

Result<Vocab> read(const GgufBuilder& builder) {
  const auto bytes = builder.build();
  const auto file = Gguf::parse(bytes, "test.gguf");
  if (!file.ok()) return file.error();
  return read_vocab(*file);
}

GgufBuilder smallest() {
  GgufBuilder builder;
  builder.string("tokenizer.ggml.model", "gpt2").strings("tokenizer.ggml.tokens", {"a", "b"});
  return builder;
}

GgufBuilder& types(GgufBuilder& builder, const std::vector<std::int32_t>& values) {
  return builder.key("tokenizer.ggml.token_type", GgufType::array, [&](GgufBuilder& b) {
    b.number(static_cast<std::uint32_t>(GgufType::i32));
    b.number(static_cast<std::uint64_t>(values.size()));
    for (const std::int32_t v : values) b.number(v);
  });
}

TEST(ReadVocab, LeavesOpenWhatTheFileDoesNotSay) {
  const auto vocab = read(smallest());
  ASSERT_TRUE(vocab.ok()) << vocab.error().message;
  EXPECT_EQ(vocab->model, "gpt2");
  EXPECT_EQ(vocab->tokens, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(vocab->pre.empty() && vocab->types.empty() && vocab->scores.empty() && vocab->merges.empty());
  EXPECT_FALSE(vocab->bos || vocab->eos || vocab->eot || vocab->unk);
  EXPECT_FALSE(vocab->add_bos || vocab->add_eos || vocab->add_space_prefix);
}

TEST(ReadVocab, ReadsEveryKey) {
  GgufBuilder builder = smallest();
  types(builder, {1, 3})
      .string("tokenizer.ggml.pre", "smollm")
      .strings("tokenizer.ggml.merges", {"a b"})
      .u32("tokenizer.ggml.bos_token_id", 1)
      .u32("tokenizer.ggml.eos_token_id", 0)
      .u32("tokenizer.ggml.eot_token_id", 1)
      .u32("tokenizer.ggml.unknown_token_id", 0)
      .u32("tokenizer.ggml.eom_token_id", 1)
      .key("tokenizer.ggml.add_bos_token", GgufType::boolean, [](GgufBuilder& b) { b.number(std::uint8_t{1}); })
      .key("tokenizer.ggml.add_space_prefix", GgufType::boolean, [](GgufBuilder& b) { b.number(std::uint8_t{0}); });
  const auto vocab = read(builder);
  ASSERT_TRUE(vocab.ok()) << vocab.error().message;
  EXPECT_EQ(vocab->pre, "smollm");
  EXPECT_EQ(vocab->types, (std::vector<TokenType>{TokenType::normal, TokenType::control}));
  EXPECT_EQ(vocab->merges, std::vector<std::string>{"a b"});
  EXPECT_EQ(vocab->bos, 1);
  EXPECT_EQ(vocab->eos, 0);
  EXPECT_EQ(vocab->eot, 1);
  EXPECT_EQ(vocab->unk, 0);
  EXPECT_EQ(vocab->extra_eog, std::vector<TokenId>{1});
  EXPECT_EQ(vocab->add_bos, true);
  EXPECT_EQ(vocab->add_eos, std::nullopt);
  EXPECT_EQ(vocab->add_space_prefix, false);
}

TEST(ReadVocab, TypesThatNobodyKnowsAreUnused) {
  GgufBuilder builder = smallest();
  types(builder, {77, -1});
  const auto vocab = read(builder);
  ASSERT_TRUE(vocab.ok()) << vocab.error().message;
  EXPECT_EQ(vocab->types, (std::vector<TokenType>{TokenType::unused, TokenType::unused}));
}

TEST(ReadVocab, NamesTheKeyThatIsMissingOrOfTheWrongType) {
  GgufBuilder empty;
  const auto missing = read(empty);
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("tokenizer.ggml.model"), std::string::npos) << missing.error().message;

  GgufBuilder wrong = smallest();
  wrong.string("tokenizer.ggml.bos_token_id", "one");
  const auto mistyped = read(wrong);
  ASSERT_FALSE(mistyped.ok());
  EXPECT_NE(mistyped.error().message.find("bos_token_id"), std::string::npos) << mistyped.error().message;

  GgufBuilder large = smallest();
  large.u32("tokenizer.ggml.eos_token_id", 0xFFFFFFFF);
  EXPECT_FALSE(read(large).ok());
}

}  // namespace
}  // namespace quire
