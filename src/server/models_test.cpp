// Models come when they are asked for, once for all who ask, and leave in the order in which they were last used.
#include "server/models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>

namespace quire::server {
namespace {

constexpr std::uint64_t kCache = 1 << 20;

std::string path_of(const std::string& name) { return std::string(QUIRE_TEST_DATA) + "/models/" + name + ".gguf"; }

std::uint64_t bytes_of(const std::string& name) { return Model::inspect(path_of(name))->weights_bytes + kCache; }

ModelsOptions on_demand(std::uint64_t bytes) {
  ModelsOptions options;
  options.on_demand = true;
  options.bytes = bytes;
  options.engine.cache.bytes = kCache;
  options.engine.threads = 1;
  options.patience = std::chrono::milliseconds(50);
  return options;
}

void add(Models& models, const std::vector<std::string>& names) {
  for (const std::string& name : names) ASSERT_TRUE(models.add(path_of(name)).ok()) << name;
  ASSERT_TRUE(models.start().ok());
}

Api<ServedPtr> get(Models& models, const std::string& name) {
  std::promise<Api<ServedPtr>> promise;
  auto future = promise.get_future();
  models.use(name, [&](Api<ServedPtr> served) { promise.set_value(std::move(served)); });
  return future.get();
}

std::vector<std::string> loaded(const Models& models) {
  std::vector<std::string> names;
  for (const ModelView& model : models.look_at_all()) {
    if (model.served != nullptr) names.push_back(model.name);
  }
  return names;
}

using Names = std::vector<std::string>;

void answer_something(ServedModel& served) {
  Request request;
  request.tokens = {5, 6, 7};
  request.max_tokens = 2;
  request.ignore_end = true;
  ASSERT_TRUE(served.engine.submit(std::move(request))->wait().ok());
}

TEST(Models, AreLoadedWhenAskedForAndTheFirstIsTheDefault) {
  Models models(on_demand(0));
  add(models, {"qwen2", "llama"});
  EXPECT_EQ(loaded(models), Names());
  EXPECT_EQ(models.look("llama")->info.architecture, "llama");
  EXPECT_EQ(loaded(models), Names()) << "looking loads nothing";
  EXPECT_EQ((*get(models, ""))->name, "qwen2");
  EXPECT_EQ(loaded(models), Names{"qwen2"});
  EXPECT_EQ((*get(models, "llama"))->model().info().architecture, "llama");
  EXPECT_EQ(loaded(models), (Names{"qwen2", "llama"}));
  const auto unknown = get(models, "gpt-5");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().status, 404u);
  EXPECT_EQ(unknown.error().message, "no model 'gpt-5' here; there is: qwen2, llama");
}

TEST(Models, ManyWhoAskAtOnceGetOne) {
  Models models(on_demand(0));
  add(models, {"llama", "qwen2"});
  constexpr int kThreads = 4, kEach = 25;
  std::vector<std::promise<void>> done(kThreads);
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::vector<ServedPtr> got;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::atomic<int> left{kEach};
      for (int i = 0; i < kEach; ++i) {
        models.use(t % 2 == 0 ? "llama" : "qwen2", [&](Api<ServedPtr> served) {
          const std::scoped_lock lock(mutex);
          got.push_back(*served);
          if (--left == 0) done[static_cast<std::size_t>(t)].set_value();
        });
      }
      done[static_cast<std::size_t>(t)].get_future().wait();
      const std::scoped_lock lock(mutex);  // whoever set it may still hold `left`
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got.size(), static_cast<std::size_t>(kThreads * kEach));
  std::ranges::sort(got);
  EXPECT_EQ(std::unique(got.begin(), got.end()) - got.begin(), 2);
  for (const ModelView& model : models.look_at_all()) EXPECT_EQ(model.loads, 1u) << model.name;
}

TEST(Models, TheOneUnusedForLongestLeavesAndNoMoreThanNeeded) {
  constexpr std::uint64_t kDiffer = 64 << 10;  // by less, all of them
  Models models(on_demand(bytes_of("llama") + bytes_of("qwen2") + bytes_of("qwen3") + kDiffer));
  add(models, {"llama", "qwen2", "qwen3", "gemma3"});
  for (const char* name : {"llama", "qwen2", "qwen3", "llama"}) ASSERT_TRUE(get(models, name).ok());
  EXPECT_EQ(loaded(models), (Names{"llama", "qwen2", "qwen3"}));
  ASSERT_TRUE(get(models, "gemma3").ok());
  EXPECT_EQ(loaded(models), (Names{"llama", "qwen3", "gemma3"}));
  ASSERT_TRUE(get(models, "qwen2").ok());
  EXPECT_EQ(loaded(models), (Names{"llama", "qwen2", "gemma3"}));
}

TEST(Models, WhatIsInUseStays) {
  Models models(on_demand(bytes_of("llama") + bytes_of("qwen2") - 1));
  add(models, {"llama", "qwen2"});
  ServedPtr held = *get(models, "llama");
  const auto refused = get(models, "qwen2");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().status, 503u);
  EXPECT_GT(refused.error().retry_after_s, 0);
  EXPECT_NE(refused.error().message.find("model 'qwen2' needs 1."), std::string::npos) << refused.error().message;
  answer_something(*held);
  EXPECT_EQ(loaded(models), Names{"llama"});
  held.reset();
  ASSERT_TRUE(get(models, "qwen2").ok());
  EXPECT_EQ(loaded(models), Names{"qwen2"});
}

TEST(Models, OneThatIsLetGoOfSoonIsWaitedFor) {
  ModelsOptions options = on_demand(bytes_of("llama") + 1);
  options.patience = std::chrono::seconds(60);
  Models models(options);
  add(models, {"llama", "qwen3"});
  ServedPtr held = *get(models, "llama");
  std::thread soon([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    held.reset();
  });
  EXPECT_TRUE(get(models, "qwen3").ok());
  soon.join();
}

TEST(Models, TotalsOutliveAnEngine) {
  Models models(on_demand(bytes_of("llama") + bytes_of("qwen2") - 1));
  add(models, {"llama", "qwen2"});
  answer_something(**get(models, "llama"));
  const EngineStats before = models.look("llama")->stats;
  EXPECT_EQ(before.prompt_tokens, 3u);
  EXPECT_GT(before.bytes_used + before.bytes_cached, 0u);
  ASSERT_TRUE(get(models, "qwen2").ok());
  const EngineStats away = models.look("llama")->stats;
  EXPECT_EQ(away.prompt_tokens, 3u);
  EXPECT_EQ(away.bytes_used + away.bytes_cached, 0u);
  EXPECT_EQ(away.max_running, before.max_running);
  answer_something(**get(models, "llama"));
  EXPECT_EQ(models.look("llama")->stats.prompt_tokens, 6u);
  EXPECT_EQ(models.look("llama")->loads, 2u);
}

TEST(Models, ThatCanNeverBeLoadedAreRefusedAtTheStart) {
  Models models(on_demand(bytes_of("llama") - 1));
  const auto added = models.add(path_of("llama"));
  ASSERT_FALSE(added.ok());
  EXPECT_NE(added.error().message.find("--model-bytes"), std::string::npos) << added.error().message;
  EXPECT_FALSE(models.add(path_of("nothing")).ok());
  EXPECT_FALSE(models.start().ok()) << "there is none";
  EXPECT_FALSE(models.add(std::string(QUIRE_TEST_DATA) + "/models/README.md").ok());
}

TEST(Models, OfOneNameAreRefused) {
  Models models(on_demand(0));
  ASSERT_TRUE(models.add(path_of("llama")).ok());
  EXPECT_EQ(models.add(path_of("llama")).error().code, Errc::invalid_argument);
  EXPECT_EQ(models.add(path_of("qwen2"), "llama").error().code, Errc::invalid_argument);
}

TEST(Models, BadOptionsAreFoundBeforeAnyIsLoaded) {
  for (const auto set : {+[](EngineOptions& o) { o.cache.type_k = "q17"; }, +[](EngineOptions& o) { o.kernels = "?"; },
                         +[](EngineOptions& o) { o.cache.policy = "some"; }}) {
    ModelsOptions options = on_demand(0);
    set(options.engine);
    Models models(options);
    ASSERT_TRUE(models.add(path_of("llama")).ok());
    EXPECT_FALSE(models.start().ok());
  }
}

TEST(Models, ShuttingDownCancelsForThoseWhoHoldThem) {
  auto models = std::make_unique<Models>(on_demand(0));
  add(*models, {"llama", "qwen2"});
  const ServedPtr held = *get(*models, "llama");
  Request request;
  request.tokens = {5};
  request.ignore_end = true;
  Stream stream = std::move(*held->engine.submit(std::move(request)));
  models->shut_down();
  while (stream.next()) {
  }
  EXPECT_TRUE(stream.ended());
  EXPECT_EQ(get(*models, "qwen2").error().status, 503u);
  models.reset();
  EXPECT_EQ(held->model().info().architecture, "llama");
}

TEST(CacheShares, WhatTheWeightsLeaveInEqualParts) {
  using Bytes = std::vector<std::uint64_t>;
  EXPECT_EQ(cache_shares(1000, {100, 300}), (Bytes{300, 300}));
  EXPECT_EQ(cache_shares(800, {400, 500, 600}), (Bytes{100, 100, 100})) << "an eighth";
  EXPECT_EQ(cache_shares(800, {400, 750}), (Bytes{100, 50})) << "as much as its own weights leave";
  EXPECT_EQ(cache_shares(800, {900, 100}), (Bytes{0, 100}));
}

}  // namespace
}  // namespace quire::server
