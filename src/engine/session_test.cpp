#include "quire/session.h"

#include <gtest/gtest.h>

#include <numeric>

namespace quire {
namespace {

std::shared_ptr<const Model> load(const char* name) {
  auto model = Model::load(std::string(QUIRE_TEST_DATA) + "/models/" + name + ".gguf");
  EXPECT_TRUE(model.ok()) << model.error().message;
  return *model;
}

Session open(const std::shared_ptr<const Model>& model, std::int64_t context = 128, std::int64_t chunk = 512) {
  SessionOptions options;
  options.context = context;
  options.threads = 2;
  options.prefill_chunk = chunk;
  auto session = Session::create(model, options);
  EXPECT_TRUE(session.ok()) << session.error().message;
  return std::move(*session);
}

std::vector<TokenId> prompt(int length, int seed = 1) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < length; ++i) tokens.push_back((i * 37 + seed * 11) % 95 + 1);
  return tokens;
}

// Temperature above 0, so that random models do not fall into a loop at once; seeded.
GenerateOptions some(std::int64_t count) {
  GenerateOptions options;
  options.max_tokens = count;
  options.sampling.temperature = 0.8f;
  options.sampling.seed = 3;
  return options;
}

class SessionOf : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, SessionOf, testing::Values("llama", "gemma3", "qwen2", "qwen3", "gpt2"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(SessionOf, CachedNaiveAndChunkedGiveTheSameTokens) {
  const auto model = load(GetParam());
  for (const int length : {1, 2, 31, 33, 60}) {
    auto cached = *open(model).generate(prompt(length), some(40));
    auto naive_options = some(40);
    naive_options.use_cache = false;
    auto naive = *open(model).generate(prompt(length), naive_options);
    auto chunked = *open(model, 128, 7).generate(prompt(length), some(40));
    EXPECT_EQ(cached.tokens, naive.tokens) << length;
    EXPECT_EQ(cached.tokens, chunked.tokens) << length;
    EXPECT_EQ(cached.computed_tokens, length + std::ssize(cached.tokens) - (cached.stop == StopReason::max_tokens));
    EXPECT_GT(naive.computed_tokens, cached.computed_tokens);
  }
}

TEST_P(SessionOf, ASecondPromptComputesOnlyWhatIsNew) {
  const auto model = load(GetParam());
  Session session = open(model);
  auto first = *session.generate(prompt(40), some(10));
  EXPECT_EQ(first.timings.cached_tokens, 0);

  // The conversation goes on: prompt, answer, more.
  std::vector<TokenId> longer = prompt(40);
  longer.insert(longer.end(), first.tokens.begin(), first.tokens.end());
  const auto more = prompt(9, 5);
  longer.insert(longer.end(), more.begin(), more.end());
  auto warm = *session.generate(longer, some(10));
  EXPECT_GE(warm.timings.cached_tokens, 40 + std::ssize(first.tokens) - 1);
  EXPECT_EQ(warm.timings.prompt_tokens + warm.timings.cached_tokens, std::ssize(longer));
  EXPECT_EQ(warm.tokens, open(model).generate(longer, some(10))->tokens) << "warm and cold answers differ";

  // Another continuation of the same beginning rolls back to it.
  std::vector<TokenId> other = prompt(40);
  other[25] = other[25] % 95 + 1;
  auto branched = *session.generate(other, some(10));
  EXPECT_EQ(branched.timings.cached_tokens, 25);
  EXPECT_EQ(branched.tokens, open(model).generate(other, some(10))->tokens);

  // The same prompt again: one token is left to compute.
  auto again = *session.generate(other, some(10));
  EXPECT_EQ(again.timings.cached_tokens, 39);
  EXPECT_EQ(again.tokens, branched.tokens);

  session.reset();
  EXPECT_EQ(session.cache().tokens, 0);
  EXPECT_EQ(session.generate(other, some(1))->timings.cached_tokens, 0);
}

TEST(Session, StopsWhereItShould) {
  const auto model = load("llama");
  EXPECT_EQ(open(model).generate(prompt(4), some(0))->tokens.size(), 0u);
  auto full = *open(model, 16).generate(prompt(10), some(-1));
  if (full.stop != StopReason::end_of_generation) {
    EXPECT_EQ(full.stop, StopReason::context_full);
    EXPECT_EQ(full.tokens.size(), 7u) << "16 positions computed, and one more token from the last";
  }
  std::atomic<bool> cancel{false};
  auto options = some(-1);
  options.cancel = &cancel;
  int seen = 0;
  options.on_token = [&](TokenId, std::string_view) { cancel = ++seen == 3; };
  auto stopped = *open(model).generate(prompt(4), options);
  EXPECT_TRUE(stopped.stop == StopReason::cancelled || stopped.stop == StopReason::end_of_generation);
  EXPECT_LE(stopped.tokens.size(), 3u);
}

TEST(Session, StreamedTextIsTheText) {
  auto options = some(30);
  std::string streamed;
  options.on_token = [&](TokenId, std::string_view text) { streamed += text; };
  const auto generation = *open(load("qwen2")).generate(prompt(5), options);
  EXPECT_EQ(streamed, generation.text);
}

TEST(Session, CacheReport) {
  const auto model = load("llama");
  Session session = open(model, 64);
  (void)session.generate(prompt(20), some(5));
  const ModelInfo& info = model->info();
  const auto per_token = static_cast<std::uint64_t>(2 * info.layers * info.kv_heads * info.head_dim * 2);
  EXPECT_EQ(session.cache().bytes_per_token, per_token);
  EXPECT_EQ(session.cache().bytes, 64 * per_token);
  EXPECT_GE(session.cache().tokens, 20);
  auto naive = some(5);
  naive.use_cache = false;
  (void)session.generate(prompt(20), naive);
  EXPECT_EQ(session.cache().bytes, 0u);
  EXPECT_EQ(session.cache().tokens, 0);
}

TEST(Session, BadInputIsAnError) {
  const auto model = load("llama");
  Session session = open(model, 32);
  EXPECT_EQ(session.generate({}, some(1)).error().code, Errc::invalid_argument);
  const std::vector<TokenId> foreign{5, 96};
  EXPECT_EQ(session.generate(foreign, some(1)).error().message, "token 96 is outside the vocabulary of 96");
  const std::vector<TokenId> negative{-1};
  EXPECT_FALSE(session.generate(negative, some(1)).ok());
  const auto too_long = session.generate(prompt(33), some(1));
  ASSERT_FALSE(too_long.ok());
  EXPECT_EQ(too_long.error().code, Errc::context_full);
  EXPECT_EQ(too_long.error().message, "33 tokens do not fit in the context of 32; raise -c/--ctx-size");
  EXPECT_TRUE(session.generate(prompt(32), some(1)).ok()) << "after errors it goes on";

  SessionOptions options;
  options.context = 129;  // trained for 128
  EXPECT_FALSE(Session::create(model, options).ok());
  options = {};
  options.context = 64;
  options.type_k = "q3";
  EXPECT_FALSE(Session::create(model, options).ok());
  options = {};
  options.context = 0;
  EXPECT_FALSE(Session::create(model, options).ok());
}

TEST(Session, EvaluateVisitsWhatWasAskedFor) {
  const auto model = load("llama");
  for (const std::int64_t chunk : {3, 512}) {
    Session session = open(model, 64, chunk);
    std::vector<std::int64_t> seen;
    ASSERT_TRUE(session
                    .evaluate(prompt(20), 8,
                              [&](std::int64_t i, std::span<const float> logits) {
                                seen.push_back(i);
                                EXPECT_EQ(logits.size(), 96u);
                              })
                    .ok());
    std::vector<std::int64_t> expected(12);
    std::iota(expected.begin(), expected.end(), 8);
    EXPECT_EQ(seen, expected);
  }
}

TEST(Model, ErrorsNameTheFile) {
  const auto absent = Model::load("/nonexistent.gguf");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, Errc::not_found);
  const auto model = load("llama");
  EXPECT_FALSE(model->has_chat_template());
  EXPECT_FALSE(model->chat_prompt(std::vector<Message>{{"user", "hi"}}).ok());
}

}  // namespace
}  // namespace quire
