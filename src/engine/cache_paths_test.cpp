// However a sequence came to be cached, greedy generation goes on with the same tokens: forked, found
// by its prefix, evicted and computed again, rolled back, batched with others, in any chunks.
// QUIRE_PATHS_MODEL names a real model to try instead of the tiny ones, with longer texts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "cache/kv_cache.h"
#include "core/cpu_features.h"
#include "engine/model_parts.h"
#include "model/decoder.h"
#include "model/kv_groups.h"
#include "quire/model.h"

namespace quire {
namespace {

const char* real_model() { return std::getenv("QUIRE_PATHS_MODEL"); }

std::shared_ptr<const Model> load(const std::string& name) {
  const std::string path =
      real_model() != nullptr ? std::string(real_model()) : std::string(QUIRE_TEST_DATA) + "/models/" + name + ".gguf";
  auto model = Model::load(path);
  if (!model.ok()) std::abort();
  return *model;
}

// A model, a cache and nothing else: what an engine is made of.
class Runner {
 public:
  Runner(std::shared_ptr<const Model> model, const KvChoice& choice, std::uint64_t budget = std::uint64_t{1} << 32)
      : model_(std::move(model)),
        pool_(2),
        decoder_(config(), model_->parts().weights_for(cpu_ops(best_isa()), pool_), cpu_ops(best_isa()), pool_) {
    KvGroups groups = kv_groups(config(), choice);
    CacheOptions options;
    options.groups = std::move(groups.groups);
    options.layer_map = std::move(groups.layer_map);
    options.budget_bytes = budget;
    options.poison = true;
    cache_ = std::move(*KvCache::create(options));
  }
  KvCache& cache() { return *cache_; }

  struct Step {
    SequenceId id;
    std::vector<TokenId> tokens;
  };
  // One forward pass; the logits after the last token of each sequence.
  std::vector<std::vector<float>> logits(const std::vector<Step>& steps) {
    std::vector<StepWant> wants;
    for (const Step& step : steps) wants.push_back({step.id, std::ssize(step.tokens)});
    auto plan = cache_->prepare(wants);
    if (!plan.ok()) std::abort();
    make_copies(*plan, cache_->layouts());
    std::vector<TokenId> tokens;
    std::vector<BatchSequence> sequences;
    std::vector<std::int64_t> last_rows;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      sequences.push_back({std::ssize(steps[i].tokens), cache_->length(steps[i].id), plan->tables[i], {}});
      tokens.insert(tokens.end(), steps[i].tokens.begin(), steps[i].tokens.end());
      last_rows.push_back(std::ssize(tokens) - 1);
    }
    const auto rows = decoder_.forward({tokens, sequences, cache_->layouts(), cache_->layer_map(), last_rows});
    const auto vocabulary = static_cast<std::size_t>(config().vocabulary);
    std::vector<std::vector<float>> result;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto row = rows.subspan(i * vocabulary, vocabulary);
      result.emplace_back(row.begin(), row.end());
      cache_->commit(steps[i].id, steps[i].tokens);
    }
    return result;
  }
  // The likeliest next tokens.
  std::vector<TokenId> forward(const std::vector<Step>& steps) {
    std::vector<TokenId> next;
    for (const auto& row : logits(steps)) {
      next.push_back(static_cast<TokenId>(std::ranges::max_element(row) - row.begin()));
    }
    return next;
  }

  // Computes what `all` has beyond the sequence in chunks, then generates. What was generated.
  std::vector<TokenId> generate(SequenceId id, const std::vector<TokenId>& all, std::int64_t count,
                                std::int64_t chunk = 512) {
    TokenId next = 0;
    for (std::int64_t at = cache_->length(id); at < std::ssize(all);) {
      const std::int64_t n = std::min(chunk, std::ssize(all) - at);
      next = forward({{id, {all.begin() + at, all.begin() + at + n}}})[0];
      at += n;
    }
    std::vector<TokenId> generated{next};
    while (std::ssize(generated) < count) generated.push_back(forward({{id, {generated.back()}}})[0]);
    return generated;
  }

 private:
  const ModelConfig& config() const { return model_->parts().config; }

  std::shared_ptr<const Model> model_;
  ThreadPool pool_;
  Decoder decoder_;
  std::unique_ptr<KvCache> cache_;
};

struct Case {
  const char* name;
  const char* model;
  KvChoice choice;
  KvVisibility visible = {};
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class CachePaths : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    model_ = load(GetParam().model);
    const std::int64_t length = real_model() != nullptr ? 700 : 70;
    for (std::int64_t i = 0; i < length; ++i) {
      prompt_.push_back(static_cast<TokenId>((i * i * 7 + i * 3 + 11) % (model_->info().vocabulary - 1)));
    }
    count_ = real_model() != nullptr ? 64 : 40;
    truth_ = fresh(prompt_);
  }
  Runner runner(std::uint64_t budget = std::uint64_t{1} << 32) const { return {model_, GetParam().choice, budget}; }
  SequenceOptions options() const { return {{}, GetParam().visible}; }
  std::vector<TokenId> fresh(const std::vector<TokenId>& prompt) const {
    Runner r = runner();
    EXPECT_TRUE(r.cache().open(1, options()).ok());
    return r.generate(1, prompt, count_);
  }

  std::shared_ptr<const Model> model_;
  std::vector<TokenId> prompt_, truth_;
  std::int64_t count_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Formats, CachePaths,
                         testing::Values(Case{"f16", "llama", {}},
                                         Case{"f32", "llama", {KvFormat::f32, KvFormat::f32, 0, 0}},
                                         Case{"q8", "llama", {KvFormat::q8, KvFormat::q8, 1, 0}},
                                         Case{"q4_recent", "llama", {KvFormat::q4, KvFormat::q4, 1, 1}},
                                         Case{"k2", "llama", {KvFormat::k2, KvFormat::k2, 0, 1}},
                                         Case{"gemma3", "gemma3", {}},
                                         Case{"gemma3_q5", "gemma3", {KvFormat::q5, KvFormat::q5, 0, 0}},
                                         Case{"sinks", "llama", {}, {4, 40}}, Case{"gpt2", "gpt2", {}}),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_P(CachePaths, AnyChunks) {
  for (const std::int64_t chunk : {1, 31, 32, 33, 512}) {
    Runner r = runner();
    ASSERT_TRUE(r.cache().open(1, options()).ok());
    EXPECT_EQ(r.generate(1, prompt_, count_, chunk), truth_) << chunk;
  }
}

TEST_P(CachePaths, ForksEqualIndependentRuns) {
  Runner r = runner();
  ASSERT_TRUE(r.cache().open(1, options()).ok());
  const std::vector<TokenId> common(prompt_.begin(), prompt_.end() - 10);
  r.generate(1, common, 1);
  auto other = common;
  for (TokenId t = 1; t < 9; ++t) other.push_back(t);
  ASSERT_TRUE(r.cache().fork(1, 2).ok());
  ASSERT_TRUE(r.cache().fork(1, 3).ok());
  EXPECT_EQ(r.generate(2, other, count_), fresh(other));
  EXPECT_EQ(r.generate(1, prompt_, count_), truth_);
  r.cache().release(2);
  EXPECT_EQ(r.generate(3, prompt_, count_), truth_);
}

TEST_P(CachePaths, FoundByItsPrefix) {
  Runner r = runner();
  ASSERT_TRUE(r.cache().open(1, options()).ok());
  r.generate(1, prompt_, 1);
  r.cache().checkpoint(1);
  r.generate(1, prompt_, count_);
  r.cache().release(1);
  for (SequenceId id = 2; id < 5; ++id) {
    ASSERT_TRUE(r.cache().open(id, options()).ok());
    const std::int64_t found = r.cache().reuse(id, prompt_);
    EXPECT_GE(found, GetParam().visible.window == 0 ? 64 : 32);
    EXPECT_LT(found, std::ssize(prompt_));
    EXPECT_EQ(r.generate(id, prompt_, count_), truth_);
  }
}

TEST_P(CachePaths, EvictedAndComputedAgain) {
  Runner roomy = runner();
  Runner r = runner(2 * roomy.cache().estimate_bytes(std::ssize(prompt_) + count_ + 64) + (1 << 21));
  // By single pages: what a step writes takes 16 bits, many times what it takes once it is encoded.
  ASSERT_TRUE(r.cache().open(1, options()).ok());
  r.generate(1, prompt_, count_, kPageTokens);
  r.cache().release(1);
  for (SequenceId id = 10; id < 16; ++id) {
    auto other = prompt_;
    other[0] = static_cast<TokenId>(id);
    ASSERT_TRUE(r.cache().open(id, options()).ok());
    r.generate(id, other, 2, kPageTokens);
    r.cache().release(id);
  }
  ASSERT_TRUE(r.cache().open(2, options()).ok());
  r.cache().reuse(2, prompt_);
  EXPECT_EQ(r.generate(2, prompt_, count_, kPageTokens), truth_);
}

TEST_P(CachePaths, RolledBackAndResumed) {
  Runner r = runner();
  ASSERT_TRUE(r.cache().open(1, options()).ok());
  r.generate(1, prompt_, count_);
  for (const std::int64_t back : {1, 5, 40, 69}) {
    const auto reached = r.cache().rollback(1, std::ssize(prompt_) - back);
    ASSERT_TRUE(reached.ok());
    EXPECT_LE(*reached, std::ssize(prompt_) - back);
    EXPECT_EQ(r.generate(1, prompt_, count_), truth_) << "back by " << back;
  }
}

// A draft of which some tokens are rejected, again and again.
TEST_P(CachePaths, RejectedDrafts) {
  Runner r = runner();
  ASSERT_TRUE(r.cache().open(1, options()).ok());
  std::vector<TokenId> generated = r.generate(1, prompt_, 1);
  while (std::ssize(generated) < count_) {
    std::vector<TokenId> draft{generated.back(), 1, 2, 3, 4, 5};
    const std::int64_t length = r.cache().length(1);
    (void)r.forward({{1, draft}});
    ASSERT_TRUE(r.cache().rollback(1, length).ok());
    std::vector<TokenId> all = prompt_;
    all.insert(all.end(), generated.begin(), generated.end());
    generated.push_back(r.generate(1, all, 1)[0]);
  }
  EXPECT_EQ(generated, truth_);
}

// Prefilling and decoding side by side, sharing a prefix or not.
TEST_P(CachePaths, InABatchWithOthers) {
  Runner r = runner();
  for (SequenceId id = 1; id <= 4; ++id) ASSERT_TRUE(r.cache().open(id, options()).ok());
  std::vector<TokenId> other = prompt_;
  other[3] = 9;
  const auto other_truth = fresh(other);
  TokenId first = r.forward({{1, prompt_}, {2, other}})[0];
  r.cache().release(4);
  ASSERT_TRUE(r.cache().fork(1, 4).ok());
  std::vector<TokenId> one{first}, four{first};
  std::int64_t at = 0;
  while (std::ssize(one) < count_) {
    std::vector<Runner::Step> steps{{1, {one.back()}}, {4, {four.back()}}};
    const std::int64_t n = std::min<std::int64_t>(7, std::ssize(prompt_) - at);
    if (n > 0) steps.push_back({3, {prompt_.begin() + at, prompt_.begin() + at + n}});
    at += n;
    const auto next = r.forward(steps);
    one.push_back(next[0]);
    four.push_back(next[1]);
  }
  EXPECT_EQ(one, truth_);
  EXPECT_EQ(four, truth_);
  EXPECT_EQ(r.generate(
                2,
                [&] {
                  auto all = other;
                  all.push_back(other_truth[0]);
                  return all;
                }(),
                count_ - 1),
            std::vector<TokenId>(other_truth.begin() + 1, other_truth.end()));
}

// Sequences that see different things, over one pool, with and without a prefix in common.
TEST(MixedPolicies, ABatchGivesTheBitsOfEachAlone) {
  for (const char* const name : {"llama", "gemma3", "gpt2"}) {
    const auto model = load(name);
    std::vector<KvVisibility> policies{{}, {0, 40}, {4, 60}, {0, 10}};
    if (std::string_view(name) == "gpt2") policies = {{}, {0, 40}};  // learned positions have no sinks
    const std::int64_t vocabulary = model->info().vocabulary;
    std::vector<TokenId> prompt;
    for (std::int64_t i = 0; i < 90; ++i) prompt.push_back(static_cast<TokenId>((i * i * 5 + 7 * i + 3) % vocabulary));
    const auto decode = [&](std::int64_t i) { return std::vector<TokenId>{static_cast<TokenId>(i * 3 % vocabulary)}; };
    constexpr std::int64_t kDecoded = 30;

    std::vector<std::vector<std::vector<float>>> alone;
    for (const KvVisibility& policy : policies) {
      Runner r(model, {});
      ASSERT_TRUE(r.cache().open(1, {{}, policy}).ok());
      auto& rows = alone.emplace_back(r.logits({{1, prompt}}));
      for (std::int64_t i = 0; i < kDecoded; ++i) rows.push_back(r.logits({{1, decode(i)}})[0]);
    }
    EXPECT_NE(alone[0].back(), alone[1].back());

    for (const bool found : {false, true}) {
      Runner r(model, {});
      if (found) {
        ASSERT_TRUE(r.cache().open(1000).ok());
        for (const std::int64_t end : {32, 64, 89}) {
          const auto from = prompt.begin() + r.cache().length(1000);
          (void)r.logits({{1000, {from, prompt.begin() + end}}});
          r.cache().checkpoint(1000);
        }
      }
      std::vector<Runner::Step> steps;
      std::int64_t reused = 0;
      for (std::size_t i = 0; i < policies.size(); ++i) {
        ASSERT_TRUE(r.cache().open(i, {{}, policies[i]}).ok());
        const std::int64_t length = r.cache().reuse(i, prompt);
        reused += length;
        steps.push_back({i, {prompt.begin() + length, prompt.end()}});
      }
      EXPECT_EQ(reused > 64, found);
      for (std::int64_t i = 0; i <= kDecoded; ++i) {
        const auto rows = r.logits(steps);
        for (std::size_t p = 0; p < policies.size(); ++p) {
          ASSERT_EQ(rows[p], alone[p][static_cast<std::size_t>(i)]) << name << " policy " << p << " step " << i;
          steps[p].tokens = decode(i);
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire
