// Saved, restored in an engine that never saw the prompt, and answered as before.
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "engine/engine_test_support.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using namespace testing_support;

class TempFolder {
 public:
  TempFolder() : path_(testing::TempDir() + "quire-saving-XXXXXX") { EXPECT_NE(::mkdtemp(path_.data()), nullptr); }
  ~TempFolder() { fs::remove_all(path_); }
  std::string file(const std::string& name = "prompt") const { return path_ + "/" + name; }
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(path_), fs::directory_iterator()); }

 private:
  std::string path_;
};

EngineOptions with_type(const std::string& type) {
  EngineOptions options;
  options.cache.type_k = options.cache.type_v = type;
  return options;
}

Request salted(std::string salt) {
  Request request;
  request.salt = std::move(salt);
  return request;
}

struct Kind {
  const char* model;
  const char* type;
};
class SavedBy : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, SavedBy,
                         testing::Values(Kind{"llama", "f16"}, Kind{"llama", "f32"}, Kind{"llama", "q8"},
                                         Kind{"llama", "q4"}, Kind{"llama", "fp8"}, Kind{"llama", "q2"},
                                         Kind{"llama", "k4"}, Kind{"gemma3", "f16"}, Kind{"gemma3", "q8"},
                                         Kind{"gemma3", "k2"}, Kind{"gpt2", "q5"}),
                         [](const auto& param) { return std::string(param.param.model) + "_" + param.param.type; });

TEST_P(SavedBy, AnotherEngineGoesOnWithTheSameTokens) {
  const TempFolder folder;
  const auto model = load(GetParam().model);
  const Request question = ask(prompt(100), 12);
  Completion before;
  {
    Engine engine = start(model, with_type(GetParam().type));
    before = run(engine, question);
    const auto saved = engine.save(question, folder.file());
    ASSERT_TRUE(saved.ok()) << saved.error().message;
    EXPECT_EQ(saved->prompt_tokens, 100);
    EXPECT_EQ(saved->saved_tokens, 96);
    EXPECT_EQ(saved->bytes, fs::file_size(folder.file()));
    struct stat status {};
    ASSERT_EQ(::stat(folder.file().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
  }
  Engine engine = start(model, with_type(GetParam().type));
  const auto restored = engine.restore({}, folder.file());
  ASSERT_TRUE(restored.ok()) << restored.error().message;
  EXPECT_EQ(restored->prompt_tokens, 100);
  EXPECT_EQ(restored->saved_tokens, 96);
  EXPECT_EQ(restored->restored_tokens, 96);
  EXPECT_EQ(restored->reusable_tokens, 96);
  EXPECT_EQ(engine.look_up(question)->cached_tokens, 96);
  const Completion after = run(engine, question);
  EXPECT_EQ(after.report.cached_tokens, 96);
  EXPECT_EQ(after.choices[0].tokens, before.choices[0].tokens);
  EXPECT_EQ(engine.stats().computed_tokens, 100u - 96 + 11) << "nothing that was restored is computed again";
}

TEST(Saving, IsUnderTheSaltOfWhoRestores) {
  const TempFolder folder;
  const auto model = load("llama");
  Engine engine = start(model), other = start(model);
  Request question = ask(prompt(70), 1);
  question.salt = "one";
  run(engine, question);
  EXPECT_EQ(engine.save(ask(prompt(70), 1), folder.file()).error().code, Errc::not_found) << "another's pages";
  ASSERT_TRUE(engine.save(question, folder.file()).ok());
  ASSERT_TRUE(other.restore(salted("two"), folder.file()).ok());
  EXPECT_EQ(other.look_up(question)->cached_tokens, 0);
  question.salt = "two";
  EXPECT_EQ(other.look_up(question)->cached_tokens, 64);
}

TEST(Saving, SaysWhatCannotBeDone) {
  const TempFolder folder;
  const auto model = load("llama");
  Engine engine = start(model);
  EXPECT_EQ(engine.save(ask(prompt(70), 1), folder.file()).error().code, Errc::not_found);
  EXPECT_EQ(folder.files(), 0) << "nothing cached, nothing written";
  EXPECT_EQ(engine.restore({}, folder.file()).error().code, Errc::not_found);
  run(engine, ask(prompt(20), 1));
  EXPECT_EQ(engine.save(ask(prompt(20), 1), folder.file()).error().code, Errc::not_found) << "less than a page";
  run(engine, ask(prompt(70), 1));
  EXPECT_EQ(engine.save(ask(prompt(70), 1), folder.file("no/such/folder")).error().code, Errc::io);
  ASSERT_TRUE(engine.save(ask(prompt(70), 1), folder.file()).ok());

  const auto refused = [&](Engine& by, const Request& request, const char* reason) {
    const auto restored = by.restore(request, folder.file());
    ASSERT_FALSE(restored.ok());
    EXPECT_EQ(restored.error().code, Errc::unsupported);
    EXPECT_NE(restored.error().message.find(reason), std::string::npos) << restored.error().message;
    EXPECT_EQ(by.look_up(ask(prompt(70), 1))->cached_tokens, 0);
  };
  Engine packed = start(model, with_type("q8")), foreign = start(load("llama_rope_linear"));
  refused(packed, {}, "type of keys f16; here it is q8");
  refused(foreign, {}, "model file");
  EngineOptions slow;
  slow.kernels = "ref";
  Engine rounding = start(model, slow);
  refused(rounding, {}, "kernels");
  Request evicting;
  evicting.cache_policy = "h2o:64";
  Engine same = start(model);
  refused(same, evicting, "cache policy h2o");
  Request scored = ask(prompt(70), 1);
  scored.cache_policy = "h2o:64";
  EXPECT_EQ(engine.save(scored, folder.file("h2o")).error().code, Errc::unsupported);
  EngineOptions alone;
  alone.share_prefixes = false;
  Engine without = start(model, alone);
  refused(without, {}, "shares no prefixes");
}

TEST(Saving, OfAWindowIsWhatThePolicyDoesNotAffect) {
  const TempFolder folder;
  const auto model = load("llama");
  Engine engine = start(model), other = start(model);
  Request narrow = ask(prompt(100), 4);
  narrow.cache_policy = "window:70";
  const Completion before = run(engine, narrow);
  const auto saved = engine.save(narrow, folder.file());
  ASSERT_TRUE(saved.ok()) << saved.error().message;
  EXPECT_EQ(saved->saved_tokens, 64);
  Request same_policy;
  same_policy.cache_policy = narrow.cache_policy;
  const auto restored = other.restore(same_policy, folder.file());
  ASSERT_TRUE(restored.ok()) << restored.error().message;
  EXPECT_EQ(restored->reusable_tokens, 64);
  const Completion after = run(other, narrow);
  EXPECT_EQ(after.report.cached_tokens, 64);
  EXPECT_EQ(after.choices[0].tokens, before.choices[0].tokens);
}

// What is pinned keeps its pages; what there is room for of the rest is found.
TEST(Saving, RestoresAsFarAsThereIsRoom) {
  const TempFolder folder;
  const auto model = load("llama");
  EngineOptions options;
  Engine large = start(model, options);
  run(large, ask(prompt(120), 1));
  const auto saved = large.save(ask(prompt(120), 1), folder.file());
  ASSERT_TRUE(saved.ok());
  ASSERT_EQ(saved->saved_tokens, 96);
  // Ten pages, as the pool takes them from the system, of which eight are pinned.
  options.cache.bytes = 10 * (saved->bytes / 3 + 4096);
  Engine small = start(model, options);
  for (const int seed : {3, 4}) {
    Request pinned = ask(prompt(100, seed), 1);
    pinned.keep = std::chrono::hours(1);
    run(small, pinned);
  }
  const auto restored = small.restore({}, folder.file());
  ASSERT_TRUE(restored.ok()) << restored.error().message;
  EXPECT_GT(restored->restored_tokens, 0);
  EXPECT_LT(restored->restored_tokens, 96);
  EXPECT_GE(restored->reusable_tokens, restored->restored_tokens);
  EXPECT_LT(restored->reusable_tokens, 96);
  EXPECT_EQ(restored->miss, MissReason::differs);
  EXPECT_LE(small.stats().bytes_used + small.stats().bytes_cached, options.cache.bytes);
  EXPECT_EQ(small.look_up(ask(prompt(100, 3), 1))->cached_tokens, 99) << "what is pinned stays";
  EXPECT_EQ(run(small, ask(prompt(120), 1)).report.cached_tokens, restored->reusable_tokens);
}

TEST(Saving, GoesOnBesideAnswers) {
  const TempFolder folder;
  const auto model = load("gemma3");
  Engine engine = start(model);
  const Request question = ask(prompt(110), 8);
  const Completion before = run(engine, question);
  ASSERT_TRUE(engine.save(question, folder.file("0")).ok());
  std::atomic<bool> done{false};
  std::vector<std::thread> savers;
  savers.reserve(2);
  for (int i = 0; i < 2; ++i) {
    savers.emplace_back([&, i] {
      const std::string file = folder.file(std::to_string(i));
      while (!done) {
        const auto saved = engine.save(question, file);
        if (!saved.ok()) {
          EXPECT_TRUE(saved.error().code == Errc::busy || saved.error().code == Errc::not_found)
              << saved.error().message;
        }
        const auto restored = engine.restore(salted(std::to_string(i)), folder.file("0"));
        if (!restored.ok()) {
          ADD_FAILURE() << restored.error().message;
        }
      }
    });
  }
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(run(engine, question).choices[0].tokens, before.choices[0].tokens);
    if (i % 3 == 0) engine.forget_cached();
  }
  done = true;
  for (std::thread& saver : savers) saver.join();
  engine.forget_cached();
  EXPECT_EQ(engine.stats().bytes_used + engine.stats().bytes_cached, 0u) << "nothing stays held";
  Engine other = start(model);
  EXPECT_EQ(other.restore({}, folder.file("0"))->reusable_tokens, 96);
  EXPECT_EQ(run(other, question).choices[0].tokens, before.choices[0].tokens);
}

TEST(Saving, ADamagedFileIsRefused) {
  const TempFolder folder;
  const auto model = load("llama");
  Engine engine = start(model);
  run(engine, ask(prompt(100), 1));
  const auto saved = engine.save(ask(prompt(100), 1), folder.file());
  ASSERT_TRUE(saved.ok());
  std::fstream file(folder.file(), std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(saved->bytes - 100));
  file.put('\x55');
  file.close();
  Engine other = start(model);
  const auto restored = other.restore({}, folder.file());
  ASSERT_FALSE(restored.ok());
  EXPECT_EQ(restored.error().code, Errc::bad_file);
  EXPECT_NE(restored.error().message.find("page 2"), std::string::npos) << restored.error().message;
  EXPECT_EQ(other.look_up(ask(prompt(100), 1))->cached_tokens, 64) << "the pages before it are right";
  fs::resize_file(folder.file(), saved->bytes - 1);
  EXPECT_EQ(other.restore({}, folder.file()).error().code, Errc::bad_file);
}

}  // namespace
}  // namespace quire
