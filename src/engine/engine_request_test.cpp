// What a request may ask for, and what becomes of it.
#include <algorithm>
#include <cmath>
#include <regex>
#include <thread>

#include "engine/engine_test_support.h"

namespace quire {
namespace {

using namespace testing_support;

const std::vector<TokenId>& only(const Completion& completion) { return completion.choices.at(0).tokens; }

// log-softmax of a session's logits after each token.
std::vector<std::vector<double>> truth(const std::shared_ptr<const Model>& model, const std::vector<TokenId>& tokens) {
  SessionOptions options;
  options.context = 128;
  Session session = *Session::create(model, options);
  std::vector<std::vector<double>> rows;
  EXPECT_TRUE(session
                  .evaluate(tokens, 0,
                            [&](std::int64_t, std::span<const float> logits) {
                              double sum = 0;
                              for (const float x : logits) sum += std::exp(static_cast<double>(x));
                              auto& row = rows.emplace_back();
                              for (const float x : logits) row.push_back(static_cast<double>(x) - std::log(sum));
                            })
                  .ok());
  return rows;
}

TEST(EngineRequest, ChoicesAreForksWithSeedsOfTheirOwn) {
  const auto model = load("llama");
  Engine engine = start(model);
  Request request = ask(prompt(40), 12, 3);
  request.choices = 3;
  const Completion together = run(engine, request);
  ASSERT_EQ(together.choices.size(), 3);
  EXPECT_EQ(together.report.generated_tokens, 36);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(together.choices[i].tokens, only(run(engine, ask(prompt(40), 12, 3 + i)))) << i;
  }
  EXPECT_NE(together.choices[0].tokens, together.choices[1].tokens);
  // The prompt went through the model once: 40 tokens and 3 x 11 answers.
  EXPECT_EQ(engine.stats().computed_tokens, 40 + 3 * 11 + 3 * (1 + 11));
}

// Against a search that recomputes every beam from nothing.
TEST(EngineRequest, BeamsAreTheLikeliestOfAllContinuations) {
  const auto model = load("llama");
  Engine engine = start(model);
  struct Beam {
    std::vector<TokenId> tokens;
    double log_probability;
  };
  constexpr std::size_t kBeams = 3;
  const auto start_tokens = prompt(33);
  std::vector<Beam> beams{{start_tokens, 0}};
  for (int length = 0; length < 8; ++length) {
    std::vector<Beam> all;
    for (const Beam& beam : beams) {
      const auto row = truth(model, beam.tokens).back();
      for (std::size_t t = 0; t < row.size(); ++t) {
        if (model->ends_generation(static_cast<TokenId>(t))) continue;
        Beam longer = beam;
        longer.tokens.push_back(static_cast<TokenId>(t));
        longer.log_probability += row[t];
        all.push_back(std::move(longer));
      }
    }
    std::ranges::stable_sort(all, std::greater{}, &Beam::log_probability);
    all.resize(kBeams);
    beams = std::move(all);
  }
  Request request = ask(start_tokens, 8);
  request.beams = request.choices = kBeams;
  const Completion found = run(engine, request);
  ASSERT_EQ(found.choices.size(), kBeams);
  for (std::size_t i = 0; i < kBeams; ++i) {
    if (found.choices[i].stop == StopReason::end_of_generation) continue;
    EXPECT_EQ(found.choices[i].tokens, std::vector<TokenId>(beams[i].tokens.begin() + 33, beams[i].tokens.end())) << i;
  }
  EXPECT_EQ(engine.stats().running, 0);
}

TEST(EngineRequest, LogProbabilitiesAreTheModelsOwn) {
  const auto model = load("llama");
  Engine engine = start(model);
  Request request = ask(prompt(20), 6);
  request.top_logprobs = 3;
  auto stream = *engine.submit(request);
  std::vector<TokenId> tokens = prompt(20);
  std::vector<StreamEvent> events;
  while (auto event = stream.next()) {
    tokens.push_back(*event->token);
    events.push_back(*event);
  }
  const auto rows = truth(model, tokens);
  ASSERT_EQ(events.size(), 6);
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto& row = rows[19 + i];
    ASSERT_EQ(events[i].alternatives.size(), 3);
    EXPECT_EQ(events[i].chosen->token, tokens[20 + i]);
    EXPECT_NEAR(events[i].chosen->log_probability, row[static_cast<std::size_t>(tokens[20 + i])], 1e-4);
    EXPECT_EQ(events[i].alternatives[0].token, std::ranges::max_element(row) - row.begin());
    EXPECT_GE(events[i].alternatives[0].log_probability, events[i].alternatives[1].log_probability);
  }
}

TEST(EngineRequest, AGivenTextIsScoredWarmOrCold) {
  const auto model = load("gemma3");
  Engine engine = start(model);
  const auto tokens = prompt(90);
  const auto rows = truth(model, tokens);
  for (const std::int64_t from : {0, 1, 50, 89, 90}) {
    Request request = ask(tokens, 0);
    request.score_from = from;
    const Completion completion = run(engine, request);
    const std::int64_t first = std::max<std::int64_t>(from, 1);
    ASSERT_EQ(std::ssize(completion.prompt), 90 - first) << from;
    for (std::int64_t i = first; i < 90; ++i) {
      const TokenProbability& scored = completion.prompt[static_cast<std::size_t>(i - first)];
      EXPECT_EQ(scored.token, tokens[static_cast<std::size_t>(i)]);
      EXPECT_NEAR(scored.log_probability, rows[static_cast<std::size_t>(i - 1)][static_cast<std::size_t>(scored.token)],
                  1e-4);
    }
  }
}

TEST(EngineRequest, EmbeddingsHaveLengthOneAndDoNotDependOnChunks) {
  const auto model = load("llama");
  EngineOptions small;
  small.max_batch = 7;
  Engine engine = start(model), chunked = start(model, small);
  for (const Embedding kind : {Embedding::mean, Embedding::last}) {
    Request request = ask(prompt(50), 0);
    request.embedding = kind;
    const std::vector<float> once = run(engine, request).embedding;
    double squares = 0;
    for (const float x : once) squares += static_cast<double>(x) * static_cast<double>(x);
    EXPECT_EQ(std::ssize(once), model->info().width);
    EXPECT_NEAR(squares, 1, 1e-5);
    EXPECT_EQ(run(engine, request).embedding, once) << "warm";
    EXPECT_EQ(run(chunked, request).embedding, once);
    request.tokens[3] += 1;
    EXPECT_NE(run(engine, request).embedding, once);
  }
}

TEST(EngineRequest, NothingIsGeneratedWhereNothingIsAsked) {
  Engine engine = start(load("llama"));
  const Completion completion = run(engine, ask(prompt(40), 0));
  EXPECT_TRUE(only(completion).empty());
  EXPECT_EQ(completion.choices[0].stop, StopReason::max_tokens);
  EXPECT_EQ(run(engine, ask(prompt(40), 1)).report.cached_tokens, 39) << "but it was computed";
}

TEST(EngineRequest, AnswersFollowAFormatAndAreComplete) {
  Engine engine = start(load("llama"));
  for (int seed = 0; seed < 20; ++seed) {
    Request request = ask(prompt(30, seed), 12, static_cast<std::uint64_t>(seed));
    request.ignore_end = false;
    request.format = {OutputFormat::Kind::regex, "(ab|cd){2,6}e?"};
    request.choices = 2;
    if (seed % 4 == 0) request.beams = 3;
    const Completion completion = run(engine, request);
    for (const auto& choice : completion.choices) {
      EXPECT_TRUE(std::regex_match(choice.text, std::regex("(ab|cd){2,6}e?"))) << choice.text;
      EXPECT_LE(choice.tokens.size(), 12u);
    }
  }
  Request hopeless = ask(prompt(30), 2);
  hopeless.format = {OutputFormat::Kind::regex, "abcdefghijklmnopqrstuvwxyz"};
  const auto refused = engine.submit(hopeless)->wait();
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("the shortest answer in this format takes"), std::string::npos);
  hopeless.format.source = "(";
  EXPECT_EQ(engine.submit(hopeless).error().code, Errc::invalid_argument);
}

TEST(EngineRequest, ADraftModelChangesNothingButTheNumberOfSteps) {
  const auto model = load("llama");
  Engine plain = start(model);
  EngineOptions options;
  options.draft = model;  // guesses everything right
  Engine drafted = start(model, options);
  for (int i = 0; i < 4; ++i) {
    Request request = ask(prompt(20 + 10 * i, i), 30);
    request.sampling.temperature = 0;
    const auto truth_tokens = only(run(plain, request));
    request.speculation = Speculation::draft_model;
    const Completion completion = run(drafted, request);
    EXPECT_EQ(only(completion), truth_tokens);
    EXPECT_EQ(completion.report.accepted_tokens, completion.report.drafted_tokens);
    EXPECT_GT(completion.report.accepted_tokens, 1);
  }
  Request request = ask(prompt(20), 5);
  request.speculation = Speculation::draft_model;
  EXPECT_EQ(plain.submit(request).error().code, Errc::invalid_argument) << "it has none";
  options.draft = load("gpt2");
  const auto other = Engine::create(model, options);
  EXPECT_TRUE(other.ok() || other.error().message.find("draft model") != std::string::npos);
}

TEST(EngineRequest, StopStringsEndTheTextBeforeThem) {
  Engine engine = start(load("llama"));
  const Completion whole = run(engine, ask(prompt(30), 40));
  const std::string& text = whole.choices[0].text;
  ASSERT_GT(text.size(), 12u);
  Request request = ask(prompt(30), 40);
  request.stop = {"never to be seen", text.substr(7, 3)};
  const Completion stopped = run(engine, request);
  EXPECT_EQ(stopped.choices[0].text, text.substr(0, text.find(text.substr(7, 3))));
  EXPECT_EQ(stopped.choices[0].stop, StopReason::stop_string);
}

TEST(EngineRequest, ASlowReaderPausesOnlyItsOwnRequest) {
  const auto model = load("llama");
  EngineOptions options;
  options.stream_tokens = 4;
  options.max_running = 1;  // so that it even has to stand back
  Engine engine = start(model, options);
  auto slow = *engine.submit(ask(prompt(30), 60));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(only(run(engine, ask(prompt(20, i), 3))).size(), 3);
  const Completion finally = *slow.wait();
  Engine alone = start(model);
  EXPECT_EQ(only(finally), only(run(alone, ask(prompt(30), 60))));
}

TEST(EngineRequest, WhoGoesFirstIsDecidedByPriority) {
  EngineOptions options;
  options.max_running = 1;
  options.stream_tokens = 1 << 20;  // nobody reads along
  Engine engine = start(load("llama"), options);
  Request without_end = ask(prompt(30), 1 << 20);
  without_end.cache_policy = "sinks:4+40";
  auto long_one = *engine.submit(without_end);
  (void)long_one.next();
  Request urgent = ask(prompt(10), 2);
  urgent.priority = 1;
  EXPECT_EQ(only(run(engine, urgent)).size(), 2);
  EXPECT_FALSE(long_one.ended());
  long_one.cancel();
  EXPECT_GE(long_one.wait()->report.preemptions, 1);
}

TEST(EngineRequest, CancellingGivesEverythingBack) {
  Engine engine = start(load("llama"));
  Request two = ask(prompt(40), -1);
  two.choices = 2;
  auto cancelled = *engine.submit(two);
  cancelled.cancel();
  const Completion left = *cancelled.wait();
  ASSERT_EQ(left.choices.size(), 2u) << "those not begun end too";
  for (const auto& choice : left.choices) EXPECT_EQ(choice.stop, StopReason::cancelled);
  { auto dropped = *engine.submit(ask(prompt(40, 2), 1000)); }
  while (engine.stats().cancelled < 2) std::this_thread::yield();
  EXPECT_EQ(engine.stats().running + engine.stats().waiting, 0);
  EXPECT_EQ(engine.stats().bytes_used, 0u);
}

TEST(EngineRequest, KeptPromptsOutliveOthersUntilTheRoomIsNeeded) {
  EngineOptions options;
  options.cache.bytes = 400 << 10;
  Engine engine = start(load("llama"), options);
  Request kept = ask(prompt(96), 1);
  kept.keep = std::chrono::minutes(10);
  run(engine, kept);
  for (int i = 10; i < 60; ++i) run(engine, ask(prompt(90, i), 1));
  EXPECT_EQ(run(engine, ask(prompt(96), 1)).report.cached_tokens, 95);
  EXPECT_EQ(run(engine, ask(prompt(90, 10), 1)).report.cached_tokens, 0) << "the first of the others has left";
}

TEST(EngineRequest, WhatWasKeptCanBeLetGo) {
  EngineOptions options;
  options.cache.bytes = 400 << 10;
  Engine engine = start(load("llama"), options);
  Request kept = ask(prompt(96), 1);
  kept.keep = std::chrono::minutes(10);
  run(engine, kept);
  Request other = kept, salted = kept;
  other.tokens.pop_back();
  salted.salt = "somebody else";
  EXPECT_EQ(*engine.unpin(other), 0) << "another prompt";
  EXPECT_EQ(*engine.unpin(salted), 0) << "another's prompt";
  EXPECT_EQ(*engine.unpin(kept), 1);
  EXPECT_EQ(*engine.unpin(kept), 0) << "it is gone";
  for (int i = 10; i < 60; ++i) run(engine, ask(prompt(90, i), 1));
  EXPECT_EQ(run(engine, ask(prompt(96), 1)).report.cached_tokens, 0) << "it left like any other";
}

TEST(EngineRequest, PromptsTellHowFarTheyAre) {
  EngineOptions options;
  options.max_batch = 40;
  Engine engine = start(load("llama"), options);
  Request request = ask(prompt(100), 3);
  request.report_progress = true;
  auto stream = engine.submit(request);
  ASSERT_TRUE(stream.ok());
  std::vector<std::int64_t> done;
  while (const auto event = stream->next()) {
    if (event->token || !event->progress) continue;
    EXPECT_EQ(event->progress->total, 100);
    EXPECT_EQ(event->progress->cached, 0);
    done.push_back(event->progress->done);
  }
  EXPECT_EQ(done, (std::vector<std::int64_t>{40, 80, 100}));
  EXPECT_EQ(run(engine, request).choices[0].tokens.size(), 3) << "who only waits for the end is not disturbed";
}

TEST(EngineRequest, WhatRunsCanBeLookedAt) {
  EngineOptions options;
  options.stream_tokens = 2;
  Engine engine = start(load("llama"), options);
  EXPECT_TRUE(engine.requests().empty());
  auto stream = engine.submit(ask(prompt(40), 50));
  ASSERT_TRUE(stream.ok());
  ASSERT_TRUE(stream->next().has_value());
  const auto seen = engine.requests();
  ASSERT_EQ(seen.size(), 1);
  EXPECT_TRUE(seen[0].running);
  EXPECT_EQ(seen[0].prompt_tokens, 40);
  EXPECT_EQ(seen[0].prompt_done, 40);
  EXPECT_EQ(seen[0].max_tokens, 50);
  EXPECT_GT(seen[0].generated_tokens, 0);
  EXPECT_TRUE(stream->wait().ok());
  EXPECT_TRUE(engine.requests().empty());
}

TEST(EngineRequest, MissesAreExplained) {
  EngineOptions options;
  options.cache.bytes = 400 << 10;
  Engine engine = start(load("llama"), options);
  Request request = ask(prompt(96), 1);
  EXPECT_EQ(run(engine, request).report.miss, MissReason::differs);
  EXPECT_EQ(run(engine, request).report.miss, MissReason::none);
  request.tokens[50] += 1;
  const RequestReport edited = run(engine, request).report;
  EXPECT_EQ(edited.miss, MissReason::differs);
  EXPECT_EQ(edited.first_divergent, 50);
  request.cache_policy = "window:40";
  EXPECT_EQ(run(engine, request).report.miss, MissReason::policy);
  request.cache_policy = "h2o:40";
  EXPECT_EQ(run(engine, request).report.miss, MissReason::policy);
  for (int i = 10; i < 60; ++i) run(engine, ask(prompt(90, i), 1));
  EXPECT_EQ(run(engine, ask(prompt(96), 1)).report.miss, MissReason::evicted);
}

TEST(EngineRequest, SaltsShareNothing) {
  Engine engine = start(load("llama"));
  Request request = ask(prompt(70), 4);
  request.salt = "a";
  run(engine, request);
  EXPECT_EQ(run(engine, request).report.cached_tokens, 69);
  request.salt = "b";
  EXPECT_EQ(run(engine, request).report.cached_tokens, 0);
}

TEST(EngineRequest, WhatCanNeverBeAnsweredIsRefusedAtOnce) {
  EngineOptions options;
  options.cache.bytes = 56 << 10;
  options.max_waiting = 2;
  Engine engine = start(load("llama"), options);
  const auto error = [&](Request request) { return engine.submit(std::move(request)).error(); };
  EXPECT_EQ(error(ask({}, 1)).code, Errc::invalid_argument);
  EXPECT_EQ(error(ask({1, -3}, 1)).code, Errc::invalid_argument);
  EXPECT_EQ(error(ask(prompt(100000), 1)).code, Errc::context_full);
  const Error big = error(ask(prompt(100), 25));
  EXPECT_EQ(big.code, Errc::out_of_memory);
  EXPECT_NE(big.message.find("bytes of cache; there are 57344"), std::string::npos) << big.message;
  Request odd = ask(prompt(3), 1);
  odd.cache_policy = "windw:3";
  EXPECT_EQ(error(odd).code, Errc::invalid_argument);
  odd = ask(prompt(3), 1);
  odd.sampling.logit_bias = {{1 << 30, 1.f}};
  EXPECT_EQ(error(odd).code, Errc::invalid_argument);
  std::vector<Stream> streams;
  std::optional<Error> busy;
  for (int i = 0; i < 1000 && !busy; ++i) {
    auto stream = engine.submit(ask(prompt(3, i), 40));
    if (stream.ok()) {
      streams.push_back(std::move(*stream));
    } else {
      busy = stream.error();
    }
  }
  ASSERT_TRUE(busy);
  EXPECT_EQ(busy->code, Errc::busy);
}

}  // namespace
}  // namespace quire
