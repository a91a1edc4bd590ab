// Ten schemas over the vocabularies of real models: twenty texts of each drawn at random, all valid within the limit.
#include <gtest/gtest.h>

#include <filesystem>

#include "grammar/schema_validator.h"
#include "grammar/ten_schemas.h"
#include "grammar/test_support.h"
#include "loader/gguf.h"
#include "loader/mapped_file.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

namespace quire {
namespace {

using namespace testing_support;

class RealVocabulary : public testing::TestWithParam<const char*> {};

TEST_P(RealVocabulary, TenSchemasTwentyTimes) {
  const auto path = std::filesystem::path(QUIRE_TEST_DATA) / "../../models" / GetParam();
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto file = MappedFile::open(path.string());
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto gguf = Gguf::parse(file->bytes(), path.string());
  ASSERT_TRUE(gguf.ok()) << gguf.error().message;
  const auto tokenizer = Tokenizer::create(*read_vocab(*gguf));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;

  std::vector<TokenId> ends;
  for (TokenId token = 0; static_cast<std::size_t>(token) < tokenizer->size(); ++token) {
    if (tokenizer->is_end_of_generation(token)) ends.push_back(token);
  }
  auto trie = TokenTrie::create(
      tokenizer->size(),
      [&](TokenId token) { return tokenizer->is_special(token) ? std::string_view() : tokenizer->piece(token); }, ends);
  ASSERT_TRUE(trie.ok()) << trie.error().message;
  const auto vocabulary = std::make_shared<const TokenTrie>(std::move(trie).value());

  std::mt19937 random(42);
  for (const char* schema : kTenSchemas) {
    CompiledGrammar compiled = compiled_of(grammar_of_schema(schema), vocabulary);
    for (int i = 0; i < 20; ++i) {
      const auto text = random_text(compiled, *vocabulary, 256, random);
      ASSERT_TRUE(text.has_value()) << schema;
      ASSERT_TRUE(is_valid_text(*text, schema)) << schema << "\ngave " << *text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RealVocabulary,
                         testing::Values("SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"),
                         [](const auto& model) { return std::string(model.index == 0 ? "SmolLM2" : "Gemma3"); });

}  // namespace
}  // namespace quire
