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

TEST(Session, GoesOnWhereTheModelWouldEndIfAskedTo) {
  const auto model = load("llama");
  int ended = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    GenerateOptions options = some(100);
    options.sampling.temperature = 5;
    options.sampling.seed = seed;
    ended += open(model).generate(prompt(5), options)->stop == StopReason::end_of_generation;
    options.ignore_end = true;
    EXPECT_EQ(open(model).generate(prompt(5), options)->stop, StopReason::max_tokens) << seed;
  }
  EXPECT_GT(ended, 0) << "nothing would have ended, so nothing was shown";
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
  EXPECT_EQ(session.cache().bytes, 32 * per_token) << "one page";
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
  options.cache.type_k = "q3";
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

TEST(Session, StrategiesSayWhenToCache) {
  const auto model = load("llama");
  const auto truth = *open(model).generate(prompt(20), some(30));
  const std::int64_t steps = std::ssize(truth.tokens) + (truth.stop == StopReason::end_of_generation);
  ASSERT_GT(steps, 6);
  // Sequences of 20, 21, ... tokens: those up to `longest` are computed whole, later ones add one token.
  const auto computed = [&](std::int64_t longest) {
    std::int64_t total = 0;
    for (std::int64_t i = 0; i < steps; ++i) total += i == 0 || 20 + i <= longest ? 20 + i : 1;
    return total;
  };
  for (const auto& [strategy, longest] :
       {std::pair{"always", 0}, {"long:1000", 1000}, {"long:24", 24}, {"off", 1000}}) {
    SessionOptions options;
    options.context = 128;
    options.cache.strategy = strategy;
    Session session = std::move(*Session::create(model, options));
    const auto generation = *session.generate(prompt(20), some(30));
    EXPECT_EQ(generation.tokens, truth.tokens) << strategy;
    EXPECT_EQ(generation.computed_tokens, computed(longest)) << strategy;
    EXPECT_EQ(session.cache().off, longest == 1000) << strategy;
  }
  SessionOptions wrong;
  wrong.context = 128;
  wrong.cache.strategy = "sometimes";
  EXPECT_FALSE(Session::create(model, wrong).ok());
}

TEST(Session, PrefillDecodeForkAndRollback) {
  const auto model = load("llama");
  Session session = open(model);
  const auto tokens = prompt(50);
  const auto copy = [](Result<std::span<const float>> logits) {
    return logits.ok() ? std::vector<float>(logits->begin(), logits->end()) : std::vector<float>();
  };
  const auto after_prompt = copy(session.prefill(tokens));
  ASSERT_EQ(after_prompt.size(), 96u);
  Session other = std::move(*session.fork());
  const auto left = copy(session.decode(3)), right = copy(other.decode(4));
  EXPECT_NE(left, right);
  EXPECT_EQ(session.cached().back(), 3);
  EXPECT_EQ(other.cached().back(), 4);
  EXPECT_EQ(*other.rollback(50), 50);
  EXPECT_EQ(copy(other.decode(3)), left);
  EXPECT_EQ(*session.rollback(49), 49);
  EXPECT_EQ(copy(session.decode(tokens[49])), after_prompt);
  EXPECT_FALSE(session.prefill({}).ok());
  EXPECT_FALSE(session.decode(96).ok());
}

TEST(Session, ABudgetIsAnErrorNotACrash) {
  const auto model = load("llama");
  SessionOptions options;
  options.context = 128;
  options.cache.bytes = 24 << 10;  // a page takes 9,216 bytes
  Session session = std::move(*Session::create(model, options));
  const auto refused = session.generate(prompt(100), some(5));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::out_of_memory);
  EXPECT_TRUE(session.generate(prompt(20), some(5)).ok()) << "after errors it goes on";
}

}  // namespace
}  // namespace quire
