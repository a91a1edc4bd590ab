#include "lab/plan.h"

#include <gtest/gtest.h>

#include "lab/plan_test_support.h"

namespace quire {
namespace {

PlanRequest request(const std::string& model, std::int64_t context) {
  PlanRequest r;
  r.model = preset(model);
  r.context = context;
  r.hardware = builtin_hardware();
  r.machine.device = *find_hardware(r.hardware, "h100");
  r.memory = static_cast<std::uint64_t>(80 * kGiB);
  return r;
}

TEST(PlanPresets, AllThatAreNamed) {
  for (const char* name :
       {"llama-2-7b",   "llama-2-13b", "llama-2-70b", "llama-3-8b",  "llama-3-70b", "llama-3.1-405b", "mistral-7b",
        "mixtral-8x7b", "qwen2.5-7b",  "qwen2.5-72b", "qwen3-8b",    "qwen3-32b",   "gemma-3-4b",     "gemma-3-27b",
        "phi-3-mini",   "gpt-2",       "gpt-3",       "deepseek-v2", "deepseek-v3", "smollm2-135m"}) {
    EXPECT_TRUE(find_preset(name).ok()) << name;
  }
}

TEST(PlanPresets, WrongNamesGetTheRightOne) {
  const auto message = [](const char* name) { return find_preset(name).error().message; };
  EXPECT_NE(message("lama-3-8b").find("did you mean llama-3-8b?"), std::string::npos) << message("lama-3-8b");
  EXPECT_NE(message("Llama3-70B").find("llama-3-70b"), std::string::npos);
  EXPECT_NE(message("deepseek").find("deepseek-v2 or deepseek-v3"), std::string::npos) << message("deepseek");
  EXPECT_NE(message("xyzzy-plugh").find("known are gpt-2"), std::string::npos);
}

TEST(PlanPresets, BrokenTablesNameTheLine) {
  const auto message = [](std::string_view row) { return parse_models(row, "t").error().message; };
  EXPECT_NE(message("\n# x\nm 1 2 3").find("t, line 3: 4 columns"), std::string::npos);
  EXPECT_NE(message("m x - - - 1 1 1 1 - - - - 1").find("line 1: parameters is 'x'"), std::string::npos);
  EXPECT_NE(message("m 9 - - - 1 2 4 1 - - - - 1").find("line 1: 4 KV heads"), std::string::npos);
  EXPECT_NE(message("m 9 - - - 1 2 1 1 - - 8 - 1").find("local layers"), std::string::npos);
}

TEST(Plan, ContextThatOutweighsTheWeights) {
  PlanRequest r = request("llama-2-7b", 4096);
  EXPECT_EQ(make_plan(r)->kv_exceeds_weights_at, 25706) << "13,476,831,232 / 524,288 = 25,705.02";
  r.sequences = 10;
  EXPECT_EQ(make_plan(r)->kv_exceeds_weights_at, 2571);
  r.model.weights_bytes = 0;
  EXPECT_EQ(make_plan(r)->kv_exceeds_weights_at, 0) << "not known";
}

TEST(Plan, PagedHoldsMoreThanPreallocatedWhereSequencesStayShort) {
  PlanRequest r = request("llama-3-8b", 8192);
  r.mean_tokens = 1024;
  const auto plan = make_plan(r);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->sequences_preallocated, 80);
  EXPECT_EQ(plan->sequences_paged, 640);
}

TEST(Plan, SavingsCompound) {
  PlanRequest r = request("llama-3-70b", 8192);
  r.sequences = 4;
  r.cache.settings.policy = "window:4096";
  r.cache.settings.type_k = r.cache.settings.type_v = "q8";
  r.cache.share_layers = 2;
  const auto plan = make_plan(r);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->savings.size(), 5u);
  EXPECT_DOUBLE_EQ(plan->savings[1].factor, 0.125);
  EXPECT_DOUBLE_EQ(plan->savings[2].factor, 0.5);
  EXPECT_NEAR(plan->savings[3].factor, 132.0 / 256, 1e-9);
  EXPECT_DOUBLE_EQ(plan->savings[4].factor, 0.5);
  EXPECT_EQ(plan->savings.back().kv_bytes, plan->all_layers.kv_bytes);
}

TEST(Plan, KindsOfAttentionSideBySide) {
  const auto plan = make_plan(request("llama-3-70b", 4096));
  ASSERT_EQ(plan->attention.size(), 4u);
  EXPECT_EQ(plan->attention[0].bytes_per_token, 8 * plan->attention[1].bytes_per_token);
  EXPECT_EQ(plan->attention[1].bytes_per_token, 8 * plan->attention[2].bytes_per_token);
  EXPECT_EQ(plan->attention[3].bytes_per_token, 80 * 576 * 2);
}

TEST(Plan, FormatsAreThoseOfTheCache) {
  const auto plan = make_plan(request("llama-3-8b", 4096));
  ASSERT_EQ(plan->formats.size(), kv_formats().size());
  for (const FormatFigures& f : plan->formats) EXPECT_TRUE(find_kv_format(f.type_k)) << f.type_k;
  EXPECT_EQ(plan->formats[0].kv_bytes, 2 * plan->formats[1].kv_bytes);
  EXPECT_EQ(plan->formats[1].max_sequences, 160);
}

// 16-bit weights of 8B once per step: 16.06 GB at 70 % of 3,350 GB/s.
TEST(Plan, DecodeReadsTheWeightsAndPrefillComputes) {
  PlanRequest r = request("llama-3-8b", 1);
  EXPECT_NEAR(make_plan(r)->decode.ms, 16.0605 / 2.345, 0.01);
  r.context = 8192;
  const auto plan = make_plan(r);
  EXPECT_TRUE(plan->prefill.compute_bound);
  EXPECT_FALSE(plan->decode.compute_bound);
  const double operations_needed = 2.0 * 8030261248 * 8192 + 4.0 * 32 * 128 * 32 * 8192 * 8193 / 2;
  EXPECT_NEAR(plan->prefill.ms, operations_needed / (989e12 * 0.5) * 1000, 0.01);
  EXPECT_NEAR(plan->dollars_per_million_out, 2.5 / 3600 * plan->decode.ms / 1000 * 1e6, 1e-9);
}

TEST(Plan, CachedPrefixesAreNotComputed) {
  PlanRequest r = request("llama-3-8b", 8192);
  const double whole = make_plan(r)->prefill.ms;
  r.cache.shared_prefix = 0.75;
  EXPECT_LT(make_plan(r)->prefill.ms, 0.35 * whole);
}

TEST(Plan, ThroughputGrowsWithTheBatch) {
  const auto plan = make_plan(request("llama-3-8b", 4096));
  for (std::size_t i = 1; i < plan->batches.size(); ++i) {
    EXPECT_GT(plan->batches[i].tokens_per_second, plan->batches[i - 1].tokens_per_second);
    EXPECT_LT(plan->batches[i].dollars_per_million, plan->batches[i - 1].dollars_per_million);
  }
  EXPECT_EQ(plan->batches.back().sequences, 160);
}

TEST(Plan, OneTokenReadsFewExpertsManyReadAll) {
  const PlanModel model = preset("mixtral-8x7b");
  EXPECT_NEAR(model.weights_read(1), 2.0 * static_cast<double>(model.active), 1e7);
  EXPECT_NEAR(model.weights_read(1000), 2.0 * static_cast<double>(model.parameters), 1e7);
}

TEST(Plan, NumbersThatMakeNoSenseAreRefused) {
  const auto refused = [](auto change) {
    PlanRequest r = request("llama-3-8b", 4096);
    change(r);
    const auto plan = make_plan(r);
    return plan.ok() ? std::string() : plan.error().message;
  };
  EXPECT_NE(refused([](PlanRequest& r) { r.context = -1; }).find("--ctx-size -1; expected 1"), std::string::npos);
  EXPECT_NE(refused([](PlanRequest& r) { r.sequences = 0; }), "");
  EXPECT_NE(refused([](PlanRequest& r) { r.mean_tokens = 5000; }), "");
  EXPECT_NE(refused([](PlanRequest& r) { r.generate = 4096; }), "");
  EXPECT_NE(refused([](PlanRequest& r) { r.machine.read_share = 0; }), "");
  EXPECT_NE(refused([](PlanRequest& r) { r.model.kv_heads = 33; }), "");
  EXPECT_NE(refused([](PlanRequest& r) {
              r.model = shape(4096, 4096, 4096, 65536);
              r.context = kMostPlannedTokens;
              r.sequences = kMostPlannedSequences;
            }).find("2^64"),
            std::string::npos);
}

TEST(Plan, WithoutMemoryTheMachineDecides) {
  PlanRequest r = request("llama-3-8b", 8192);
  r.memory.reset();
  EXPECT_EQ(make_plan(r)->memory, static_cast<std::uint64_t>(80 * kGiB * 0.9 - 2.0 * 8030261248));
  r.model = preset("llama-3.1-405b");
  EXPECT_EQ(make_plan(r)->memory, 0u);
  EXPECT_EQ(make_plan(r)->all_layers.max_sequences, 0);
}

}  // namespace
}  // namespace quire
