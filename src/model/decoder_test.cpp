// Logits against PyTorch (tests/data/models/README.md), and the decoder's own promises.
#include "model/decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>

#include "loader/mapped_file.h"

namespace quire {
namespace {

struct Fixture {
  explicit Fixture(const std::string& name)
      : file(std::move(*MappedFile::open(std::string(QUIRE_TEST_DATA) + "/models/" + name + ".gguf"))),
        gguf(std::move(*Gguf::parse(file.bytes(), name))),
        config(std::move(*read_config(gguf))),
        weights(std::move(*read_weights(gguf, config))) {
    std::ifstream in(std::string(QUIRE_TEST_DATA) + "/models/" + name + ".logits", std::ios::binary);
    std::uint32_t sizes[2]{};
    in.read(reinterpret_cast<char*>(sizes), sizeof sizes);
    tokens.resize(sizes[0]);
    logits.resize(std::size_t{sizes[0]} * sizes[1]);
    in.read(reinterpret_cast<char*>(tokens.data()), static_cast<std::streamsize>(4 * tokens.size()));
    in.read(reinterpret_cast<char*>(logits.data()), static_cast<std::streamsize>(4 * logits.size()));
    EXPECT_TRUE(in.good());
  }

  MappedFile file;
  Gguf gguf;
  ModelConfig config;
  Weights weights;
  std::vector<TokenId> tokens;
  std::vector<float> logits;
};

// A cache whose unwritten slots are NaN.
struct TestCache {
  TestCache(const ModelConfig& c, std::int64_t capacity_, KvType type) : capacity(capacity_) {
    const std::int64_t stream = c.kv_heads * capacity * c.head_dim * bytes_per_value(type);
    bytes.resize(static_cast<std::size_t>(2 * c.layers * stream), std::byte{0xFF});
    for (int l = 0; l < c.layers; ++l) {
      std::byte* at = bytes.data() + 2 * l * stream;
      layers.push_back(
          {{at, type, capacity * c.head_dim, c.head_dim}, {at + stream, type, capacity * c.head_dim, c.head_dim}});
    }
  }
  KvView view() const { return {layers, capacity}; }
  std::int64_t capacity;
  std::vector<std::byte> bytes;
  std::vector<KvLayerView> layers;
};

// Logits of every token, computed in chunks of the given size.
std::vector<float> run(const Fixture& f, const ModelConfig& config, const Ops& ops, std::int64_t chunk, int threads,
                       KvType type) {
  ThreadPool pool(threads);
  Decoder decoder(config, f.weights, ops, pool);
  const TestCache cache(config, std::ssize(f.tokens) + 5, type);
  std::vector<float> all;
  for (std::int64_t at = 0; at < std::ssize(f.tokens); at += chunk) {
    const auto n = std::min(chunk, std::ssize(f.tokens) - at);
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < n; ++i) rows.push_back(i);
    const auto logits =
        decoder.forward({std::span(f.tokens).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(n)), at,
                         cache.view(), rows});
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

double deviation(const std::vector<float>& x) {
  double sum = 0, squares = 0;
  for (const float v : x) sum += v, squares += double{v} * v;
  const auto n = static_cast<double>(x.size());
  return std::sqrt(squares / n - sum / n * (sum / n));
}

// The largest difference, in standard deviations of the true logits.
double error(const std::vector<float>& truth, const std::vector<float>& got) {
  double largest = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double d = std::abs(double{truth[i]} - got[i]);
    if (!(d <= largest)) largest = d;
  }
  return largest / deviation(truth);
}

constexpr double kTolerance = 2e-4;
const char* const kNames[] = {"llama", "llama_rope_llama3", "llama_rope_linear", "gemma3", "qwen2", "qwen3", "gpt2"};

class DecoderFixture : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Architectures, DecoderFixture, testing::ValuesIn(kNames),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(DecoderFixture, ReferenceAgreesWithPyTorch) {
  const Fixture f(GetParam());
  ASSERT_GE(deviation(f.logits), 3.0);
  const double e = error(f.logits, run(f, f.config, ref_ops(), 64, 1, KvType::f32));
  RecordProperty("error", std::to_string(e));
  EXPECT_LT(e, kTolerance);
}

// All weights are F32, so the fast kernels quantise nothing and must be as close. 16-bit keys and
// values cost these random models up to 1 %: the second bound only catches gross mistakes.
TEST_P(DecoderFixture, FastKernelsAgreeWithPyTorch) {
  const Fixture f(GetParam());
  for (const Isa isa : {Isa::portable, Isa::avx2}) {
    if (isa > best_isa()) continue;
    EXPECT_LT(error(f.logits, run(f, f.config, cpu_ops(isa), 64, 2, KvType::f32)), kTolerance) << name(isa);
    EXPECT_LT(error(f.logits, run(f, f.config, cpu_ops(isa), 64, 2, KvType::f16)), 2e-2) << name(isa);
  }
}

TEST_P(DecoderFixture, ChunksAndThreadsChangeNoBit) {
  const Fixture f(GetParam());
  for (const Ops* ops : {&ref_ops(), &cpu_ops(best_isa())}) {
    const auto whole = run(f, f.config, *ops, 64, 1, KvType::f16);
    for (const std::int64_t chunk : {1, 7, 63}) {
      for (const int threads : {1, 3}) {
        const auto pieces = run(f, f.config, *ops, chunk, threads, KvType::f16);
        ASSERT_EQ(0, std::memcmp(whole.data(), pieces.data(), whole.size() * sizeof(float)))
            << ops->name << " chunk " << chunk << " threads " << threads;
      }
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
  EXPECT_GT(error(f.logits, run(f, wrong, ref_ops(), 64, 1, KvType::f32)), kTolerance);
}

}  // namespace
}  // namespace quire
