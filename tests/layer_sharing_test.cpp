// Layers that share one place in the cache, against transformers (tests/data/sharing/README.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "cache/kv_cache.h"
#include "model/decoder.h"
#include "support/model_fixture.h"

namespace quire {
namespace {

using namespace testing_support;

using LayerMap = std::vector<KvLayerRef>;
const LayerMap kPairs{{0, 0}, {0, 0}, {0, 1}, {0, 1}};
const LayerMap kAlone{{0, 0}, {0, 1}, {0, 2}, {0, 3}};
const LayerMap kOtherPairs{{0, 0}, {0, 1}, {0, 1}, {0, 0}};
constexpr double kTolerance = 2e-4;

const ModelFixture& model() {
  static const ModelFixture loaded("sharing/llama_pairs");
  return loaded;
}

std::unique_ptr<KvCache> make_cache(const LayerMap& map, KvFormat format) {
  KvGroupSpec spec;
  for (const KvLayerRef& place : map) spec.layers = std::max(spec.layers, place.layer + 1);
  spec.kv_heads = model().config.kv_heads;
  spec.key_dim = spec.value_dim = model().config.head_dim;
  spec.keys = spec.values = format;
  CacheOptions options;
  options.groups = {spec};
  options.layer_map = map;
  options.budget_bytes = 1 << 20;
  options.poison = true;
  return std::move(*KvCache::create(options));
}

// Logits of every token, computed in chunks as sequence 1.
std::vector<float> run(KvCache& cache, const Ops& ops, std::int64_t chunk) {
  ThreadPool pool(2);
  Decoder decoder(model().config, model().weights, ops, pool);
  EXPECT_TRUE(cache.open(1).ok());
  std::vector<float> all;
  for (auto left = std::span(model().tokens); !left.empty();) {
    const auto tokens = left.first(std::min(left.size(), static_cast<std::size_t>(chunk)));
    left = left.subspan(tokens.size());
    const StepWant want{1, std::ssize(tokens)};
    const StepPlan plan = std::move(*cache.prepare({&want, 1}));
    EXPECT_TRUE(plan.copies.empty());
    std::vector<std::int64_t> rows(tokens.size());
    std::iota(rows.begin(), rows.end(), 0);
    const BatchSequence sequence{want.tokens, cache.length(1), plan.tables[0], {}};
    const auto logits = decoder.forward({tokens, {&sequence, 1}, cache.layouts(), cache.layer_map(), rows});
    all.insert(all.end(), logits.begin(), logits.end());
    cache.commit(1, tokens);
  }
  return all;
}

std::vector<float> run(const LayerMap& map, KvFormat format, const Ops& ops, std::int64_t chunk) {
  return run(*make_cache(map, format), ops, chunk);
}

class LayerSharing : public testing::TestWithParam<const Ops*> {};
INSTANTIATE_TEST_SUITE_P(Kernels, LayerSharing, testing::Values(&ref_ops(), &cpu_ops(best_isa())),
                         [](const auto& param) { return std::string(param.param->name); });

TEST_P(LayerSharing, AgreesWithTransformers) {
  ASSERT_GE(deviation(model().logits), 3.0);
  const double e = error(model().logits, run(kPairs, KvFormat::f32, *GetParam(), 13));
  RecordProperty("error", std::to_string(e));
  EXPECT_LT(e, kTolerance);
}

// The comparison can fail.
TEST_P(LayerSharing, OtherMapsAreOtherModels) {
  for (const LayerMap& map : {kAlone, kOtherPairs}) {
    EXPECT_GT(error(model().logits, run(map, KvFormat::f32, *GetParam(), 13)), 0.1);
  }
}

TEST_P(LayerSharing, ChunksChangeNoBit) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::q4}) {
    const auto whole = run(kPairs, format, *GetParam(), 64);
    for (const std::int64_t chunk : {1, 7, 33}) EXPECT_EQ(run(kPairs, format, *GetParam(), chunk), whole) << chunk;
  }
}

TEST(LayerSharingBytes, AreHalf) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::q8}) {
    const auto pairs = make_cache(kPairs, format), alone = make_cache(kAlone, format);
    EXPECT_EQ(2 * pairs->bytes_per_token(), alone->bytes_per_token());
    run(*pairs, ref_ops(), 64);
    run(*alone, ref_ops(), 64);
    EXPECT_EQ(2 * pairs->held_bytes(1), alone->held_bytes(1));
    EXPECT_EQ(pairs->held_bytes(1), pairs->estimate_bytes(64));
  }
  // Keys and values x 4 layers x 2 heads x 8 values x 2 bytes, then of 2 places.
  EXPECT_EQ(make_cache(kAlone, KvFormat::f16)->bytes_per_token(), 256u);
  EXPECT_EQ(make_cache(kPairs, KvFormat::f16)->bytes_per_token(), 128u);
}

}  // namespace
}  // namespace quire
