// However requests meet in the engine, each is answered as if it were alone.
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "engine/engine_test_support.h"

namespace quire {
namespace {

using namespace testing_support;

class EngineOf : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, EngineOf, testing::Values("llama", "gemma3", "gpt2"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(EngineOf, AnswersAsASessionDoes) {
  const auto model = load(GetParam());
  Engine engine = start(model);
  for (const int length : {1, 2, 31, 32, 33, 70}) {
    SessionOptions options;
    options.context = engine.context();
    Session session = *Session::create(model, options);
    GenerateOptions how;
    how.max_tokens = 20;
    how.sampling.temperature = 0.8f;
    how.sampling.seed = 5;
    const Generation truth = *session.generate(prompt(length), how);
    Request request = ask(prompt(length), 20);
    request.sampling = how.sampling;
    request.ignore_end = false;
    const Completion completion = run(engine, request);
    EXPECT_EQ(completion.choices[0].tokens, truth.tokens) << length;
    EXPECT_EQ(completion.choices[0].text, truth.text) << length;
    EXPECT_EQ(completion.choices[0].stop, truth.stop) << length;
  }
}

TEST_P(EngineOf, TheSamePromptTwiceIsComputedOnce) {
  Engine engine = start(load(GetParam()));
  const Completion first = run(engine, ask(prompt(70), 10));
  const Completion second = run(engine, ask(prompt(70), 10));
  EXPECT_EQ(first.report.prompt_tokens, 70);
  EXPECT_EQ(first.report.cached_tokens, 0);
  EXPECT_EQ(second.report.cached_tokens, 69);
  EXPECT_EQ(first.choices[0].tokens, second.choices[0].tokens);
}

TEST_P(EngineOf, AConversationComputesOnlyWhatIsNew) {
  Engine engine = start(load(GetParam()));
  std::vector<TokenId> said = prompt(50);
  std::int64_t known = 0;
  for (int turn = 0; turn < 5; ++turn) {
    const Completion completion = run(engine, ask(said, 7));
    EXPECT_EQ(completion.report.cached_tokens, known) << turn;
    const auto& answer = completion.choices[0].tokens;
    said.insert(said.end(), answer.begin(), answer.end());
    known = std::ssize(said) - 1;  // the last token was drawn, not computed
    const auto more = prompt(5, turn);
    said.insert(said.end(), more.begin(), more.end());
  }
  // An earlier turn is edited: everything before stays.
  std::vector<TokenId> edited(said.begin(), said.begin() + 60);
  edited.back() = edited.back() % 95 + 1;
  EXPECT_EQ(run(engine, ask(edited, 3)).report.cached_tokens, 59);
}

// Whatever runs beside it, in whatever chunks, warm or cold, with room or without: the same tokens.
TEST_P(EngineOf, ManyTogetherAnswerAsEachAlone) {
  const auto model = load(GetParam());
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const char* policies[] = {"full", "full", "full", "window:40", "sinks:4+60", "h2o:48", "snapkv:40%"};
  std::vector<Request> requests;
  for (int i = 0; i < 60; ++i) {
    std::vector<TokenId> tokens = prompt(10 * below(6), below(3));
    const auto tail = prompt(1 + below(60), i);
    tokens.insert(tokens.end(), tail.begin(), tail.end());
    Request request = ask(tokens, 1 + below(25));
    request.cache_policy = policies[below(7)];
    if (request.cache_policy.starts_with("sinks") && std::string(GetParam()) == "gpt2")
      request.cache_policy = "window:33";
    request.sampling.seed = static_cast<std::uint64_t>(i);
    request.priority = below(3);
    request.salt = below(4) == 0 ? "other" : "";
    request.speculation = below(2) == 0 ? Speculation::prompt_lookup : Speculation::off;
    if (below(10) == 0) request.choices = 3;
    requests.push_back(std::move(request));
  }
  std::vector<Completion> alone;
  for (const Request& request : requests) {
    Engine engine = start(model);
    alone.push_back(run(engine, request));
  }
  for (const int budget_kib : {0, 340}) {
    EngineOptions options;
    options.max_batch = 40;
    options.cache.bytes = static_cast<std::uint64_t>(budget_kib) << 10;
    Engine engine = start(model, options);
    std::vector<Stream> streams;
    for (const Request& request : requests) {
      auto stream = engine.submit(request);
      ASSERT_TRUE(stream.ok()) << stream.error().message;
      streams.push_back(std::move(*stream));
    }
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (i % 9 == 5) {
        (void)streams[i].next();
        streams[i].cancel();
        continue;
      }
      const auto completion = streams[i].wait();
      ASSERT_TRUE(completion.ok()) << completion.error().message;
      for (std::size_t c = 0; c < alone[i].choices.size(); ++c) {
        EXPECT_EQ(completion->choices[c].tokens, alone[i].choices[c].tokens)
            << i << " " << requests[i].cache_policy << " of " << requests[i].tokens.size();
        EXPECT_EQ(completion->choices[c].text, alone[i].choices[c].text);
      }
    }
    streams.clear();
    while (engine.stats().running + engine.stats().waiting > 0) std::this_thread::yield();
    engine.forget_cached();
    EXPECT_EQ(engine.stats().bytes_used + engine.stats().bytes_cached, 0u);
  }
}

// Answers grow until the cache holds only some of them: the later ones stand back, and go on later.
TEST_P(EngineOf, RunningOutOfMemoryIsAPause) {
  const auto model = load(GetParam());
  std::vector<Request> requests;
  for (int i = 0; i < 6; ++i) requests.push_back(ask(prompt(30, i), 90, static_cast<std::uint64_t>(i)));
  EngineOptions options;
  options.stream_tokens = 4;  // none can run ahead of the others
  for (options.cache.bytes = 16 << 10;; options.cache.bytes += 4 << 10) {
    auto tight = Engine::create(model, options);
    if (tight.ok() && tight->submit(requests[0]).ok()) break;
  }
  Engine engine = start(model, options), roomy = start(model);
  std::vector<Stream> streams;
  for (const Request& request : requests) streams.push_back(*engine.submit(request));
  std::vector<std::vector<TokenId>> answers(streams.size());
  for (bool more = true; std::exchange(more, false);) {
    for (std::size_t i = 0; i < streams.size(); ++i) {
      const auto event = streams[i].next();
      if (event && event->token) answers[i].push_back(*event->token);
      more = more || event;
    }
  }
  EXPECT_GE(engine.stats().preemptions, 1u);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    EXPECT_TRUE(streams[i].report().ok());
    EXPECT_EQ(answers[i], run(roomy, requests[i]).choices[0].tokens) << i;
  }
}

TEST(Engine, StreamsOutliveTheEngine) {
  std::optional<Stream> stream;
  {
    Engine engine = start(load("llama"));
    stream.emplace(*engine.submit(ask(prompt(40), 100)));
  }
  EXPECT_TRUE(stream->wait().ok());
}

}  // namespace
}  // namespace quire
