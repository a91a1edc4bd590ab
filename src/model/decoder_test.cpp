// Logits against PyTorch (tests/data/models/README.md), and the decoder's own promises.
#include "model/decoder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>

#include "model/kv_groups.h"
#include "support/model_fixture.h"

namespace quire {
namespace {

using namespace testing_support;

struct Fixture : ModelFixture {
  explicit Fixture(const std::string& name) : ModelFixture("models/" + name) {}
};

// Pages whose unwritten slots are NaN, as many as the tokens need, kept for ever.
struct TestCache {
  TestCache(const ModelConfig& config, std::int64_t tokens, const KvChoice& choice)
      : groups(kv_groups(config, choice)), pages(tokens / kPageTokens + 1) {
    for (const KvGroupSpec& spec : groups.groups) {
      const KvGroupLayout& layout = layouts.emplace_back(*make_layout(spec));
      auto& bytes = storage.emplace_back(static_cast<std::size_t>(pages * (layout.wide.bytes + layout.packed.bytes)),
                                         std::byte{0xFF});
      auto& entries = tables.emplace_back();
      std::byte* at = bytes.data();
      for (std::int64_t i = 0; i < pages; ++i, at += layout.wide.bytes + layout.packed.bytes) {
        entries.push_back({at, at + layout.wide.bytes});
      }
      views.push_back({entries.data(), nullptr, 0, 0, layout.visible});
    }
  }
  KvGroups groups;
  std::int64_t pages;
  std::vector<KvGroupLayout> layouts;
  std::vector<std::vector<std::byte>> storage;
  std::vector<std::vector<KvTableEntry>> tables;
  std::vector<KvTable> views;
};

// Logits of every token, computed in chunks of the given size.
std::vector<float> run(const Fixture& f, const ModelConfig& config, const Ops& ops, std::int64_t chunk, int threads,
                       const KvChoice& choice) {
  ThreadPool pool(threads);
  Decoder decoder(config, f.weights, ops, pool);
  const TestCache cache(config, std::ssize(f.tokens), choice);
  std::vector<float> all;
  for (std::int64_t at = 0; at < std::ssize(f.tokens); at += chunk) {
    const auto n = std::min(chunk, std::ssize(f.tokens) - at);
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < n; ++i) rows.push_back(i);
    const BatchSequence sequence{n, at, cache.views, {}};
    const auto logits =
        decoder.forward({std::span(f.tokens).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(n)),
                         {&sequence, 1},
                         cache.layouts,
                         cache.groups.layer_map,
                         rows});
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

constexpr double kTolerance = 2e-4;
const KvChoice kF32{KvFormat::f32, KvFormat::f32, 0, 0};
const KvChoice kF16{};
const KvChoice kQ4{KvFormat::q4, KvFormat::q4, 0, 0};
const char* const kNames[] = {"llama", "llama_rope_llama3", "llama_rope_linear", "gemma3", "qwen2", "qwen3", "gpt2"};

class DecoderFixture : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Architectures, DecoderFixture, testing::ValuesIn(kNames),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(DecoderFixture, ReferenceAgreesWithPyTorch) {
  const Fixture f(GetParam());
  ASSERT_GE(deviation(f.logits), 3.0);
  const double e = error(f.logits, run(f, f.config, ref_ops(), 24, 1, kF32));  // in chunks: the cache is read
  RecordProperty("error", std::to_string(e));
  EXPECT_LT(e, kTolerance);
}

// All weights are F32, so the fast kernels quantise nothing and must be as close. 16-bit keys and
// values cost these random models up to 1 %: the second bound only catches gross mistakes.
TEST_P(DecoderFixture, FastKernelsAgreeWithPyTorch) {
  const Fixture f(GetParam());
  for (const Isa isa : kIsas) {
    if (isa > best_isa()) continue;
    EXPECT_LT(error(f.logits, run(f, f.config, cpu_ops(isa), 64, 2, kF32)), kTolerance) << name(isa);
    EXPECT_LT(error(f.logits, run(f, f.config, cpu_ops(isa), 64, 2, kF16)), 2e-2) << name(isa);
  }
}

TEST_P(DecoderFixture, ChunksAndThreadsChangeNoBit) {
  const Fixture f(GetParam());
  for (const Ops* ops : {&ref_ops(), &cpu_ops(best_isa())}) {
    for (const KvChoice& choice : {kF16, kQ4}) {
      const auto whole = run(f, f.config, *ops, 64, 1, choice);
      for (const std::int64_t chunk : {1, 7, 63}) {
        for (const int threads : {1, 3}) {
          const auto pieces = run(f, f.config, *ops, chunk, threads, choice);
          ASSERT_EQ(0, std::memcmp(whole.data(), pieces.data(), whole.size() * sizeof(float)))
              << ops->name << " chunk " << chunk << " threads " << threads << " " << info(choice.keys).name;
        }
      }
    }
  }
}

// The last layer leaves out rows that nobody wants: those that are wanted must not notice, now or in the next chunk.
TEST_P(DecoderFixture, RowsNobodyWantsChangeNoBit) {
  const Fixture f(GetParam());
  constexpr std::int64_t kRows = 24, kSequences = 3;
  for (const Ops* ops : {&ref_ops(), &cpu_ops(best_isa())}) {
    const auto all = run(f, f.config, *ops, 2 * kRows, 1, kF16);
    ThreadPool pool(2);
    Decoder decoder(f.config, f.weights, *ops, pool);
    std::deque<TestCache> caches;  // their views point into them
    for (std::int64_t i = 0; i < kSequences; ++i) caches.emplace_back(f.config, 2 * kRows, kF16);
    for (std::int64_t chunk = 0; chunk < 2; ++chunk) {
      std::vector<TokenId> tokens;
      std::vector<BatchSequence> sequences;
      for (const TestCache& cache : caches) {
        const auto begin = f.tokens.begin() + chunk * kRows;
        tokens.insert(tokens.end(), begin, begin + kRows);
        sequences.push_back({kRows, chunk * kRows, cache.views, {}});
      }
      const auto layouts = std::span(caches[0].layouts);
      const std::vector<std::int64_t> wanted{kRows + 10, 2 * kRows - 1, 3 * kRows - 2}, hidden{kRows + 5};
      const auto logits = decoder.forward({tokens, sequences, layouts, caches[0].groups.layer_map, wanted, hidden});
      ASSERT_EQ(logits.size(), wanted.size() * static_cast<std::size_t>(f.config.vocabulary));
      EXPECT_EQ(std::ssize(decoder.hidden()), f.config.width);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const auto vocabulary = static_cast<std::size_t>(f.config.vocabulary);
        const auto row = static_cast<std::size_t>(chunk * kRows + wanted[i] % kRows);
        EXPECT_EQ(0, std::memcmp(all.data() + row * vocabulary, logits.data() + i * vocabulary, vocabulary * 4))
            << ops->name << " chunk " << chunk << " row " << wanted[i];
      }
      EXPECT_TRUE(decoder.forward({tokens, sequences, layouts, caches[0].groups.layer_map, {}}).empty());
    }
  }
}

// The comparison can fail: each of these mistakes is far outside the tolerance.
struct Mistake {
  const char* name;
  const char* model;
  std::function<void(ModelConfig&)> make;
};
void PrintTo(const Mistake& m, std::ostream* out) { *out << m.name; }

class DecoderMistake : public testing::TestWithParam<Mistake> {};
INSTANTIATE_TEST_SUITE_P(
    Decoder, DecoderMistake,
    testing::Values(
        Mistake{"rope_base_1_percent", "llama", [](ModelConfig& c) { c.ropes[0].base *= 1.01; }},
        Mistake{"rope_base_1_percent_qwen2", "qwen2", [](ModelConfig& c) { c.ropes[0].base *= 1.01; }},
        Mistake{"local_rope_base_1_percent", "gemma3", [](ModelConfig& c) { c.ropes[1].base *= 1.01; }},
        Mistake{"rope_pairs", "llama", [](ModelConfig& c) { c.positions = PositionKind::rope_split; }},
        Mistake{"rope_factors_ignored", "llama_rope_llama3", [](ModelConfig& c) { c.ropes[0].use_factors = false; }},
        Mistake{"rope_scaling_ignored", "llama_rope_linear", [](ModelConfig& c) { c.ropes[0].linear_factor = 1; }},
        Mistake{"window_one_short", "gemma3",
                [](ModelConfig& c) {
                  for (auto& l : c.layer) l.window -= l.window > 0;
                }},
        Mistake{"window_one_long", "gemma3",
                [](ModelConfig& c) {
                  for (auto& l : c.layer) l.window += l.window > 0;
                }},
        Mistake{"no_global_layer", "gemma3", [](ModelConfig& c) { c.layer[5] = c.layer[0]; }},
        Mistake{"no_qk_norm_gemma3", "gemma3", [](ModelConfig& c) { c.qk_norm = false; }},
        Mistake{"no_qk_norm_qwen3", "qwen3", [](ModelConfig& c) { c.qk_norm = false; }},
        Mistake{"no_post_norms", "gemma3", [](ModelConfig& c) { c.post_norms = false; }},
        Mistake{"no_positions", "gpt2", [](ModelConfig& c) { c.positions = PositionKind::none; }},
        Mistake{"other_activation", "gpt2", [](ModelConfig& c) { c.activation = ActivateParams::Kind::silu; }},
        Mistake{"epsilon", "llama", [](ModelConfig& c) { c.epsilon *= 100; }}),
    [](const auto& param) { return std::string(param.param.name); });

TEST_P(DecoderMistake, IsCaught) {
  const Fixture f(GetParam().model);
  ModelConfig wrong = f.config;
  GetParam().make(wrong);
  EXPECT_GT(error(f.logits, run(f, wrong, ref_ops(), 64, 1, kF32)), kTolerance);
}

}  // namespace
}  // namespace quire
