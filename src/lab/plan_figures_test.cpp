// The figures of well-known texts on the KV cache that follow from their parameters. Those that do
// not are in docs/errata.md, and here with the right value.
#include <gtest/gtest.h>

#include "lab/plan_test_support.h"

namespace quire {
namespace {

double gib(const PlanModel& model, std::int64_t tokens, std::int64_t sequences = 1, const std::string& format = "f16") {
  return static_cast<double>(demand_of(model, format).bytes(tokens, sequences)) / kGiB;
}

// "KV Cache Design and Management" (Akunu). Its MB and GB are MiB and GiB.
TEST(PlanFigures, AkunuTable) {
  EXPECT_EQ(gib(preset("llama-3-8b"), 4096), 0.5);
  EXPECT_EQ(gib(preset("llama-3-8b"), 8192), 1.0);
  EXPECT_EQ(gib(preset("qwen2.5-7b"), 4096), 224.0 / 1024);
  EXPECT_EQ(gib(preset("llama-3-70b"), 4096), 1.25);
  EXPECT_EQ(gib(preset("llama-3-70b"), 8192), 2.5);
  EXPECT_EQ(gib(shape(80, 64, 64, 128), 8192), 20.0) << "70B with every query head its own";
  EXPECT_EQ(gib(preset("gemma-3-4b"), 4096), 544.0 / 1024) << "the table says 896 MB";
}

// "KV Cache Implementation" (ZigLlama), in 32 bits.
TEST(PlanFigures, ZigLlamaTable) {
  EXPECT_EQ(gib(preset("llama-2-7b"), 2048, 1, "f32"), 2.0);
  EXPECT_EQ(gib(preset("llama-2-7b"), 4096, 1, "f32"), 4.0);
  EXPECT_EQ(gib(preset("llama-2-13b"), 2048, 1, "f32"), 3.125);
  EXPECT_EQ(gib(preset("mistral-7b"), 4096, 1, "f32"), 1.0);
}

// "KV-Cache for Autoregressive Transformer Inference": 32 layers, 4096 values, 32 bits.
TEST(PlanFigures, TheMemoryTableIsSixAndAQuarterTimesTooSmall) {
  const CacheDemand cache = demand_of(shape(32, 32, 32, 128), "f32");
  const struct {
    std::int64_t tokens;
    double table_mb;
  } rows[] = {{128, 21.47}, {1024, 171.79}, {4096, 687.19}, {16384, 2748.77}, {65536, 10995.08}, {131072, 21990.16}};
  for (const auto& row : rows) {
    EXPECT_NEAR(static_cast<double>(cache.bytes(row.tokens, 1)) / 1e6 / row.table_mb, 6.25, 0.01) << row.tokens;
  }
  EXPECT_NEAR(static_cast<double>(cache.bytes(131072, 1)) / 1e9, 137.44, 0.01);
  EXPECT_EQ(cache.bytes(1024, 1), 2 * demand_of(shape(32, 32, 32, 128)).bytes(1024, 1)) << "16 bits halve it";
}

// 1024 + 100 tokens on the same shape: 4.2e14 operations without a cache, 2.0e12 with, 200 times.
TEST(PlanFigures, TheOperationCountIsOff) {
  PlanModel model = shape(32, 32, 32, 128);
  model.parameters = model.active = 12ull * 4096 * 4096 * 32;
  const Generating g = generating(model, demand_of(model), 1024, 100);
  EXPECT_NEAR(g.operations_cached, 1.48e13, 0.01e13);
  EXPECT_NEAR(g.operations_uncached, 1.41e15, 0.01e15);
  EXPECT_NEAR(g.operations_uncached / g.operations_cached, 95.5, 0.5);
}

// "The KV Cache, Why Generation Is Fast": its GB are GiB, its K thousands.
TEST(PlanFigures, CacheByModelAndLength) {
  PlanModel llama_405b = preset("llama-3.1-405b");
  llama_405b.kv_heads = 16;
  const struct {
    PlanModel model;
    double kib_per_token, at_8k, at_32k, at_128k;
  } rows[] = {{preset("llama-3-8b"), 128, 1.0, 3.9, 15.6},
              {preset("llama-3-70b"), 320, 2.4, 9.8, 39.1},
              {llama_405b, 1008, 7.7, 30.8, 123.0}};
  for (const auto& row : rows) {
    EXPECT_EQ(demand_of(row.model).bytes_per_token() / 1024, row.kib_per_token);
    EXPECT_NEAR(gib(row.model, 8000), row.at_8k, 0.051);
    EXPECT_NEAR(gib(row.model, 32000), row.at_32k, 0.051);
    EXPECT_NEAR(gib(row.model, 128000), row.at_128k, 0.051);
  }
  EXPECT_EQ(gib(llama_405b, 131072), 126.0);
  EXPECT_EQ(gib(llama_405b, 131072, 8), 1008.0) << "over 1 TB";
  PlanModel all_heads = llama_405b;
  all_heads.kv_heads = 128;
  EXPECT_EQ(gib(all_heads, 131072), 1008.0) << "eight times as much";
  EXPECT_EQ(gib(preset("llama-3-70b"), 128000, 8), 312.5) << "over 310 GB";
  EXPECT_EQ(demand_of(preset("llama-3.1-405b")).bytes_per_token() / 1024, 504) << "as published: 8 KV heads";
}

TEST(PlanFigures, LatentAttention) {
  EXPECT_EQ(demand_of(preset("deepseek-v3")).bytes_per_token(), 61 * 576 * 2);
  EXPECT_EQ(demand_of(preset("deepseek-v2")).bytes_per_token(), 60 * 576 * 2);
  const double grouped = demand_of(shape(61, 128, 16, 128)).bytes_per_token();
  EXPECT_EQ(grouped, 499712);
  EXPECT_NEAR(grouped / (61 * 576 * 2), 7.1, 0.05);
}

// 70B at 32,000 tokens: 9.8, 4.9, 2.4 and 1.2 GB. Those are the codes alone; scales come on top.
TEST(PlanFigures, Quantisation) {
  const double f16 = gib(preset("llama-3-70b"), 32000);
  EXPECT_NEAR(f16, 9.8, 0.05);
  const struct {
    std::string format;
    double bits, text;
  } rows[] = {{"fp8", 8, 4.9}, {"q8", 8, 4.9}, {"q4", 4, 2.4}, {"k4", 4, 2.4}, {"q2", 2, 1.2}, {"k2", 2, 1.2}};
  for (const auto& row : rows) {
    EXPECT_NEAR(f16 * row.bits / 16, row.text, 0.05);
    const double ours = gib(preset("llama-3-70b"), 32000, 1, row.format);
    EXPECT_GT(ours, f16 * row.bits / 16) << row.format;
    EXPECT_LE(ours, f16 * (row.bits + 1) / 16) << row.format;
  }
}

TEST(PlanFigures, CapacityOf70BIn400GiB) {
  const CacheDemand cache = demand_of(preset("llama-3-70b"));
  const auto memory = static_cast<std::uint64_t>(400 * kGiB);
  EXPECT_EQ(cache.sequences_within(memory, 2000), 655);
  EXPECT_EQ(cache.sequences_within(memory, 8000), 163);
  EXPECT_EQ(cache.sequences_within(memory, 32000), 40);
  EXPECT_EQ(cache.sequences_within(memory, 128000), 10);
  EXPECT_EQ(cache.sequences_within(400'000'000'000, 2000), 610) << "in 400 GB";
}

TEST(PlanFigures, TwoThousandTokensAndFiveHundredMore) {
  const CacheDemand cache = demand_of(preset("llama-3-70b"));
  const Generating g = generating(preset("llama-3-70b"), cache, 2000, 500);
  EXPECT_EQ(static_cast<double>(g.kv_bytes_before) / kMiB, 625);
  EXPECT_EQ(static_cast<double>(g.kv_bytes_after) / kMiB, 781.25);
  EXPECT_EQ(static_cast<double>(cache.bytes(2100, 1)) / kMiB, 656.25);
  // The text counts 2,250 times less work, and 1,500 times for 1,000 + 1,000: it leaves out the prompt.
  EXPECT_NEAR(g.tokens_uncached / g.tokens_cached, 450, 0.2);
  const Generating even = generating(preset("llama-3-70b"), cache, 1000, 1000);
  EXPECT_NEAR(even.tokens_uncached / even.tokens_cached, 750, 0.2);
}

// Policies and cross-layer attention in the same text.
TEST(PlanFigures, PoliciesAndSharedLayers) {
  CacheChoice sinks, h2o, shared;
  sinks.settings.policy = "sinks:4+4096";
  h2o.settings.policy = "h2o:20%";
  shared.share_layers = 2;
  const PlanModel model = preset("llama-3-70b");
  EXPECT_EQ(demand_of(model, "f16", sinks).kept_tokens(1'000'000), 4100);
  EXPECT_NEAR(static_cast<double>(demand_of(model, "f16", h2o).kept_tokens(10'000)), 2000, kPageTokens);
  EXPECT_EQ(2 * demand_of(model, "f16", shared).bytes_per_token(), demand_of(model).bytes_per_token());
}

// "KV cache from scratch": 12 layers, 4096 tokens, 768 values, 16 bits: 151 million bytes, 144 MB (MiB).
TEST(PlanFigures, TwelveLayersOf768) {
  EXPECT_EQ(demand_of(preset("gpt-2")).bytes(4096, 1), 150'994'944u);
  EXPECT_EQ(static_cast<double>(demand_of(preset("gpt-2")).bytes(4096, 1)) / kMiB, 144);
}

// The 820 GB of 405B's weights are those of a copy with 16 KV heads, each stored twice.
TEST(PlanFigures, WeightsOf405B) {
  const std::uint64_t doubled_heads = 126ull * 2 * 8 * 128 * 16384;
  EXPECT_EQ(2 * preset("llama-3.1-405b").parameters, 811'706'777'600u);
  EXPECT_EQ(2 * (preset("llama-3.1-405b").parameters + doubled_heads), 820'162'494'464u);
}

}  // namespace
}  // namespace quire
