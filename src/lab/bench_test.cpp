#include "lab/bench.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

Bench tiny_bench(const char* type = "f16", const char* policy = "full") {
  BenchSetting setting;
  setting.threads = 1;
  setting.cache.type_k = setting.cache.type_v = type;
  setting.cache.policy = policy;
  setting.prefill_chunk = 40;
  return std::move(*Bench::create(*Model::load(std::string(QUIRE_TEST_DATA) + "/models/llama.gguf"), setting));
}

const BenchOptions kTwice{2, nullptr, {}};

TEST(Bench, PromptsAndAnswersAtADepth) {
  for (const char* type : {"f16", "q8", "q4", "k2"}) {
    Bench bench = tiny_bench(type);
    for (const std::int64_t depth : {0, 45, 33}) {  // back, too
      const auto prompt = bench.run({.tokens = 20, .depth = depth}, kTwice);
      ASSERT_TRUE(prompt.ok()) << prompt.error().message;
      EXPECT_EQ(prompt->ms.size(), 2u);
      EXPECT_GT(prompt->operations, 0);
      EXPECT_GT(prompt->tokens_per_second(), 0);
      const auto answer = bench.run({.kind = BenchWork::Kind::decode, .tokens = 5, .depth = depth}, kTwice);
      ASSERT_TRUE(answer.ok()) << answer.error().message;
      EXPECT_GT(answer->read_bytes, 0);
      EXPECT_LE(answer->min_ms(), answer->median_ms());
    }
  }
}

TEST(Bench, MoreIsReadAtMoreDepth) {
  Bench bench = tiny_bench();
  const auto bytes = [&](const BenchWork& work) { return bench.run(work, kTwice)->read_bytes; };
  using Kind = BenchWork::Kind;
  EXPECT_LT(bytes({.kind = Kind::decode, .tokens = 2, .depth = 10}),
            bytes({.kind = Kind::decode, .tokens = 2, .depth = 90}));
  const BenchWork apart{.kind = Kind::decode, .tokens = 2, .depth = 64, .batch = 3};
  const BenchWork together{.kind = Kind::decode, .tokens = 2, .depth = 64, .batch = 3, .shared_prefix = 60};
  EXPECT_LT(bytes(together), bytes(apart));
}

TEST(Bench, PoliciesWithAWindow) {
  Bench bench = tiny_bench("f16", "window:32");
  EXPECT_TRUE(bench.run({.kind = BenchWork::Kind::decode, .tokens = 5, .depth = 80}, kTwice).ok());
}

TEST(Bench, WorkThatCannotBeIsRefused) {
  Bench bench = tiny_bench();
  using Kind = BenchWork::Kind;
  EXPECT_FALSE(bench.run({.tokens = 0}, kTwice).ok());
  EXPECT_FALSE(bench.run({.tokens = 1, .depth = 1 << 20}, kTwice).ok());
  EXPECT_FALSE(bench.run({.kind = Kind::decode, .tokens = 1, .depth = 8, .batch = 2, .shared_prefix = 9}, kTwice).ok());
  EXPECT_FALSE(bench.run({.kind = Kind::decode, .tokens = 1, .batch = 0}, kTwice).ok());
}

TEST(Bench, CanBeStopped) {
  Bench bench = tiny_bench();
  const std::atomic<bool> stop{true};
  const auto result = bench.run({.tokens = 8}, {1, &stop, {}});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Errc::cancelled);
}

}  // namespace
}  // namespace quire
