// The ids that llama.cpp gave, in tests/data/tokenizer (scripts/oracles/tokenizer_fixtures.py).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "loader/gguf.h"
#include "text/tokenizer.h"

namespace quire {
namespace {

using Json = nlohmann::json;

std::vector<Json> read_lines(const std::string& name) {
  std::ifstream file(std::string(QUIRE_TEST_DATA) + "/tokenizer/" + name + ".jsonl");
  EXPECT_TRUE(file.is_open()) << name;
  std::vector<Json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

Vocab vocab_from(const Json& json) {
  const auto optional = [&]<class T>(const char* key, std::optional<T>& out) {
    if (json.contains(key)) out = json[key].get<T>();
  };
  Vocab vocab;
  vocab.model = json["model"];
  vocab.tokens = json["tokens"].get<std::vector<std::string>>();
  for (const int type : json["types"]) vocab.types.push_back(static_cast<TokenType>(type));
  if (json.contains("scores")) vocab.scores = json["scores"].get<std::vector<float>>();
  if (json.contains("merges")) vocab.merges = json["merges"].get<std::vector<std::string>>();
  optional("bos", vocab.bos);
  optional("eos", vocab.eos);
  optional("unk", vocab.unk);
  optional("add_bos", vocab.add_bos);
  optional("add_eos", vocab.add_eos);
  optional("add_space_prefix", vocab.add_space_prefix);
  return vocab;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

// A case is [text in hex, add_special, parse_special, ids].
void check(const Tokenizer& tokenizer, const Json& line, const std::string& where) {
  const std::string text = from_hex(line[0]);
  const auto special = line[2].get<bool>() ? Tokenizer::Special::parse : Tokenizer::Special::as_text;
  EXPECT_EQ(tokenizer.encode(text, line[1].get<bool>(), special), line[3].get<std::vector<TokenId>>())
      << where << ": " << testing::PrintToString(text) << " " << line[1] << " " << line[2];
}

class TinyVocabulary : public testing::TestWithParam<const char*> {};

TEST_P(TinyVocabulary, GivesTheIdsOfLlamaCpp) {
  const std::vector<Json> lines = read_lines(GetParam());
  ASSERT_GT(lines.size(), 100u);
  std::string pre;
  auto tokenizer = Tokenizer::create(vocab_from(lines[0]));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].is_object()) {  // {"pre": NAME}: from here on with another pre-tokenizer
      Vocab vocab = vocab_from(lines[0]);
      vocab.pre = pre = lines[i]["pre"];
      tokenizer = Tokenizer::create(std::move(vocab));
      ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    } else {
      check(*tokenizer, lines[i], pre);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TinyVocabulary,
                         testing::Values("tiny_bpe", "tiny_spm", "tiny_spm_no_prefix", "tiny_spm_equal_scores"),
                         [](const auto& vocabulary) { return std::string(vocabulary.param); });

class RealVocabulary : public testing::TestWithParam<const char*> {};

TEST_P(RealVocabulary, GivesTheIdsOfLlamaCpp) {
  const std::string name = GetParam();
  const auto path = std::filesystem::path(QUIRE_TEST_DATA) / "../../models" / (name + ".gguf");
  std::ifstream file(path, std::ios::binary);
  if (!file) GTEST_SKIP() << "models/" << name << ".gguf is not there";
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const auto gguf = Gguf::parse(std::as_bytes(std::span(bytes)), name);
  ASSERT_TRUE(gguf.ok()) << gguf.error().message;
  auto vocab = read_vocab(*gguf);
  ASSERT_TRUE(vocab.ok()) << vocab.error().message;
  const auto tokenizer = Tokenizer::create(*std::move(vocab));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const std::vector<Json> lines = read_lines(name);
  ASSERT_GT(lines.size(), 100u);
  for (const Json& line : lines) check(*tokenizer, line, name);
}

INSTANTIATE_TEST_SUITE_P(All, RealVocabulary, testing::Values("SmolLM2-135M-Instruct.Q4_1", "gemma-3-270m-q4_k_m"),
                         [](const auto& model) { return std::string(model.index == 0 ? "SmolLM2" : "Gemma3"); });

}  // namespace
}  // namespace quire
