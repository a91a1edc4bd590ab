#include "model/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "loader/mapped_file.h"
#include "model/weights.h"
#include "support/gguf_builder.h"

namespace quire {
namespace {

using testing_support::GgufBuilder;

// A llama of two layers, with what a test changes left out or replaced.
struct Keys {
  std::string architecture = "llama";
  std::optional<std::uint32_t> layers = 2, heads = 4, kv_heads = 2;
  std::string scaling = "";
  std::map<std::string, float> reals = {};  // keys after "llama."
};

GgufBuilder build(const Keys& k) {
  GgufBuilder b;
  b.string("general.architecture", k.architecture);
  if (k.layers) b.u32("llama.block_count", *k.layers);
  b.u32("llama.embedding_length", 16).u32("llama.feed_forward_length", 32).u32("llama.context_length", 64);
  if (k.heads) b.u32("llama.attention.head_count", *k.heads);
  if (k.kv_heads) b.u32("llama.attention.head_count_kv", *k.kv_heads);
  auto reals = k.reals;
  reals.emplace("attention.layer_norm_rms_epsilon", 1e-5f);
  for (const auto& [key, value] : reals) b.f32("llama." + key, value);
  if (!k.scaling.empty()) b.string("llama.rope.scaling.type", k.scaling);
  return b;
}

std::string config_error(const Keys& keys) {
  const auto bytes = build(keys).build();
  const auto gguf = Gguf::parse(bytes, "m.gguf");
  EXPECT_TRUE(gguf.ok());
  const auto config = read_config(*gguf);
  return config.ok() ? "" : config.error().message;
}

TEST(Config, ReadsALlama) {
  const auto bytes = build({}).build();
  const auto gguf = Gguf::parse(bytes, "m.gguf");
  const auto config = read_config(*gguf);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->head_dim, 4);
  EXPECT_EQ(config->kv_geometry().bytes_per_token(2), 2u * 2 * 2 * 4 * 2);
  EXPECT_EQ(config->attention_scale, 0.5f);
  EXPECT_EQ(config->ropes.size(), 1u);
}

TEST(Config, ErrorsNameTheKey) {
  EXPECT_EQ(config_error({.architecture = "mamba"}),
            "m.gguf: architecture \"mamba\" is not supported; expected one of llama, gemma3, qwen2, qwen3, gpt2");
  EXPECT_EQ(config_error({.layers = {}}),
            "m.gguf: key 'llama.block_count' is missing; expected an integer from 0 to 4096");
  EXPECT_EQ(config_error({.layers = 0}), "m.gguf: key 'llama.block_count' is 0; expected 1 to 4096");
  EXPECT_EQ(config_error({.layers = 5000}),
            "m.gguf: key 'llama.block_count' is u32 5000; expected an integer from 0 to 4096");
  EXPECT_EQ(config_error({.kv_heads = 3}), "m.gguf: 4 query heads cannot share 3 KV heads; expected a divisor");
  EXPECT_EQ(config_error({.heads = 3, .kv_heads = 3}), "m.gguf: a width of 16 does not divide into 3 heads");
  EXPECT_NE(config_error({.scaling = "yarn"}).find("RoPE scaling of type \"yarn\""), std::string::npos);
}

TEST(Config, AbsurdNumbersAreRefused) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const char* key : {"attention.scale", "attn_logit_softcapping", "final_logit_softcapping", "rope.freq_base",
                          "attention.layer_norm_rms_epsilon", "rope.scaling.factor"}) {
    for (const float value : {NAN, kInfinity, -1.f}) {
      EXPECT_NE(config_error({.reals = {{key, value}}}), "") << key << " " << value;
    }
    EXPECT_EQ(config_error({.reals = {{key, 0.5f}}}), "") << key;
  }
}

// Without a type a factor means linear scaling.
TEST(Config, RopeFactorWithoutType) {
  const auto bytes = build({.reals = {{"rope.scaling.factor", 4.f}}}).build();
  const auto gguf = Gguf::parse(bytes, "m.gguf");
  EXPECT_EQ(read_config(*gguf)->ropes[0].linear_factor, 4);
}

TEST(Weights, MissingAndMisshapenTensorsAreNamed) {
  const auto error_of = [](GgufBuilder b) {
    const auto bytes = b.build();
    const auto gguf = Gguf::parse(bytes, "m.gguf");
    auto config = read_config(*gguf);
    const auto weights = read_weights(*gguf, *config);
    return weights.ok() ? std::string() : weights.error().message;
  };
  GgufBuilder b = build({});
  EXPECT_NE(error_of(b).find("'token_embd.weight' is missing"), std::string::npos);
  b.f32_tensor("token_embd.weight", {16, 10});
  EXPECT_EQ(error_of(b), "m.gguf: tensor 'blk.0.attn_norm.weight' is missing; expected [16, 1]");
  b.f32_tensor("blk.0.attn_norm.weight", {16});
  b.f32_tensor("blk.0.attn_q.weight", {16, 15});
  EXPECT_EQ(error_of(b), "m.gguf: tensor 'blk.0.attn_q.weight' is [16, 15]; expected [16, 16]");
}

TEST(Config, Gemma3LayersAlternate) {
  const auto file = MappedFile::open(std::string(QUIRE_TEST_DATA) + "/models/gemma3.gguf");
  ASSERT_TRUE(file.ok());
  const auto gguf = Gguf::parse(file->bytes(), "gemma3");
  const auto config = read_config(*gguf);
  ASSERT_TRUE(config.ok()) << config.error().message;
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(config->layer[i].window, i == 5 ? 0 : 8);
    EXPECT_EQ(config->layer[i].rope, i == 5 ? 0 : 1);
  }
}

}  // namespace
}  // namespace quire
