#include <gtest/gtest.h>

#include "kernels/cpu/kernel_test_support.h"

namespace quire {
namespace {

using namespace testing_support;

TEST(Norm, AgreesWithTheReference) {
  ThreadPool pool(2);
  for (const auto kind : {NormParams::Kind::rms, NormParams::Kind::layer}) {
    for (const std::int64_t dim : {1, 7, 8, 9, 64, 576}) {
      for (const std::int64_t rows : {1, 50}) {
        const auto x = random_floats(rows * dim, 1, 3.f), weight = random_floats(dim, 2), bias = random_floats(dim, 3);
        std::vector<float> truth(x.size()), fast(x.size());
        ref_ops().norm({kind, x.data(), truth.data(), weight.data(), bias.data(), 1e-5f, rows, dim}, pool);
        if (kind == NormParams::Kind::rms) {
          ref_ops().norm({kind, x.data(), truth.data(), weight.data(), nullptr, 1e-5f, rows, dim}, pool);
        }
        for (const Ops* ops : fast_ops()) {
          const float* b = kind == NormParams::Kind::rms ? nullptr : bias.data();
          ops->norm({kind, x.data(), fast.data(), weight.data(), b, 1e-5f, rows, dim}, pool);
          EXPECT_LT(largest_difference(truth, fast), 1e-5f) << ops->name << " dim " << dim;
        }
      }
    }
  }
}

TEST(Activate, AgreesWithTheReferenceOverTheWholeRange) {
  ThreadPool pool(2);
  std::vector<float> x;
  for (float v = -100.f; v <= 100.f; v += 0.0137f) x.push_back(v);
  x.insert(x.end(), {0.f, -0.f, 1e-30f, -1e-30f, 1e30f, -1e30f});
  const auto dim = static_cast<std::int64_t>(x.size());
  const auto up = random_floats(dim, 4);
  for (const auto kind : {ActivateParams::Kind::silu, ActivateParams::Kind::gelu_tanh}) {
    for (const float* u : {static_cast<const float*>(nullptr), up.data()}) {
      std::vector<float> truth(x.size()), fast(x.size());
      ref_ops().activate({kind, x.data(), u, truth.data(), 1, dim}, pool);
      for (const Ops* ops : fast_ops()) {
        ops->activate({kind, x.data(), u, fast.data(), 1, dim}, pool);
        for (std::size_t i = 0; i < x.size(); ++i) {
          ASSERT_NEAR(truth[i], fast[i], 3e-6f * std::max(1.f, std::abs(truth[i]))) << ops->name << " of " << x[i];
        }
      }
    }
  }
}

TEST(Rope, AgreesWithTheReference) {
  ThreadPool pool(2);
  for (const bool adjacent : {false, true}) {
    for (const std::int64_t rope_dim : {16, 10}) {
      const std::int64_t rows = 5, heads = 3, dim = 16;
      const auto x = random_floats(rows * heads * dim, 1);
      const auto cos = random_floats(rows * rope_dim / 2, 2), sin = random_floats(rows * rope_dim / 2, 3);
      auto truth = x;
      ref_ops().rope({truth.data(), cos.data(), sin.data(), rows, heads, dim, rope_dim, adjacent}, pool);
      EXPECT_NE(truth, x);
      for (const Ops* ops : fast_ops()) {
        auto fast = x;
        ops->rope({fast.data(), cos.data(), sin.data(), rows, heads, dim, rope_dim, adjacent}, pool);
        EXPECT_LT(largest_difference(truth, fast), 1e-6f) << ops->name;
      }
    }
  }
}

TEST(Add, Adds) {
  ThreadPool pool(2);
  const auto x = random_floats(10000, 1);
  for (const Ops* ops : fast_ops()) {
    std::vector<float> y(10000, 1.f);
    ops->add(x.data(), y.data(), 10000, pool);
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], 1.f + x[i]);
  }
}

TEST(FindOps, NamesWhatExists) {
  EXPECT_EQ((*find_ops("ref"))->name, "ref");
  EXPECT_EQ((*find_ops("auto"))->name, fastest_ops().name);
  EXPECT_EQ((*find_ops("exact"))->name, name(best_isa()));
  ASSERT_FALSE(find_ops("sse9").ok());
  EXPECT_NE(find_ops("sse9").error().message.find("sse9"), std::string::npos);
}

}  // namespace
}  // namespace quire
