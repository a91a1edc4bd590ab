#include "lab/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quire {
namespace {

struct TinyLlama {
  TinyLlama() {
    model = *Model::load(std::string(QUIRE_TEST_DATA) + "/models/llama.gguf");
    for (int i = 0; i < 200; ++i) tokens.push_back((i * i * 7 + i) % 96);
  }
  Session open(const char* type) const {
    SessionOptions options;
    options.context = 64;
    options.threads = 1;
    options.cache.type_k = options.cache.type_v = type;
    return std::move(*Session::create(model, options));
  }
  std::shared_ptr<const Model> model;
  std::vector<TokenId> tokens;
};

// The definition, term by term: exp of the mean of -log p(next), second halves only.
TEST(Perplexity, IsTheMeanOfTheSecondHalves) {
  const TinyLlama tiny;
  Session session = tiny.open("f16");
  PerplexityOptions options;
  options.ctx = 32;
  options.chunks = 2;
  const auto report = perplexity(*tiny.model, session, tiny.tokens, options);
  ASSERT_TRUE(report.ok());
  double sum = 0;
  for (int chunk = 0; chunk < 2; ++chunk) {
    const auto tokens = std::span(tiny.tokens).subspan(static_cast<std::size_t>(32 * chunk), 32);
    (void)session.evaluate(tokens, 0, [&](std::int64_t i, std::span<const float> logits) {
      if (i < 16 || i == 31) return;
      double total = 0;
      for (const float x : logits) total += std::exp(static_cast<double>(x));
      sum += std::log(total) -
             static_cast<double>(logits[static_cast<std::size_t>(tokens[static_cast<std::size_t>(i) + 1])]);
    });
  }
  EXPECT_EQ(report->scored_tokens, 30);
  EXPECT_NEAR(report->perplexity, std::exp(sum / 30), 1e-6 * report->perplexity);
  EXPECT_GT(report->standard_error, 0);
  EXPECT_FALSE(report->divergence);
}

TEST(Perplexity, DivergenceIsZeroOnlyFromItself) {
  const TinyLlama tiny;
  Session f16 = tiny.open("f16"), same = tiny.open("f16"), f32 = tiny.open("f32");
  PerplexityOptions options;
  options.ctx = 64;
  options.base = &f16;
  const auto none = perplexity(*tiny.model, same, tiny.tokens, options);
  ASSERT_TRUE(none.ok() && none->divergence);
  EXPECT_EQ(none->chunks, 3);
  EXPECT_EQ(none->divergence->mean, 0);
  EXPECT_EQ(none->divergence->same_top_percent, 100);
  const auto some = perplexity(*tiny.model, f32, tiny.tokens, options);
  EXPECT_GT(some->divergence->mean, 0);
  EXPECT_LT(some->divergence->mean, 1e-3);
  EXPECT_GE(some->divergence->p99, some->divergence->median);
}

TEST(Perplexity, RisesAreTakenTokenByToken) {
  const TinyLlama tiny;
  Session f16 = tiny.open("f16"), f32 = tiny.open("f32"), bf16 = tiny.open("bf16");
  const std::vector<Session*> both{&f32, &bf16};
  PerplexityOptions options;
  options.ctx = 64;
  options.base = &f16;
  const auto reports = perplexities(*tiny.model, both, tiny.tokens, options);
  ASSERT_TRUE(reports.ok());
  ASSERT_EQ(reports->size(), 3u) << "the base's own comes last";
  options.base = nullptr;
  EXPECT_EQ(reports->back().perplexity, perplexity(*tiny.model, f16, tiny.tokens, options)->perplexity);
  for (std::size_t i = 0; i < 2; ++i) {
    const PerplexityReport& r = (*reports)[i];
    EXPECT_NEAR(std::exp(r.divergence->loss_rise), r.perplexity / reports->back().perplexity, 1e-9);
    EXPECT_GT(r.divergence->loss_rise_error, 0);
    EXPECT_LT(r.divergence->loss_rise_error, r.standard_error / r.perplexity);
  }
}

TEST(Perplexity, BadRequests) {
  const TinyLlama tiny;
  Session session = tiny.open("f16");
  PerplexityOptions options;
  options.ctx = 65;
  EXPECT_FALSE(perplexity(*tiny.model, session, tiny.tokens, options).ok());
  options.ctx = 64;
  EXPECT_FALSE(perplexity(*tiny.model, session, std::span(tiny.tokens).first(63), options).ok());
  const std::atomic<bool> cancel{true};
  options.cancel = &cancel;
  EXPECT_EQ(perplexity(*tiny.model, session, tiny.tokens, options).error().code, Errc::cancelled);
}

}  // namespace
}  // namespace quire
