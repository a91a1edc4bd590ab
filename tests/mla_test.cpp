// Multi-head latent attention through cache and kernels, against transformers (tests/data/mla/README.md).
//
// The layer's projections are computed here, in double; what is cached is a token's latent and the
// RoPE part of its key. Queries and outputs are carried into the latent's space ("absorbed"), so
// that all heads attend to the latent itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

#include "cache/kv_cache.h"
#include "kernels/ops.h"

namespace quire {
namespace {

// As scripts/oracles/mla_fixture.py has them.
constexpr std::int64_t kTokens = 72, kFork = 40;
constexpr std::int64_t kHidden = 256, kHeads = 4, kLatent = 512, kRope = 64, kNope = 128, kValue = 128;
constexpr std::int64_t kKey = kNope + kRope;
constexpr double kEpsilon = 1e-6, kRopeBase = 10000;

constexpr double kTolerance = 2e-4;    // of the outputs' standard deviation
constexpr double kTolerance16 = 5e-3;  // with 16 bits in the cache
const double kScale = 1 / std::sqrt(static_cast<double>(kKey));

using Doubles = std::vector<double>;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

Doubles noise(std::uint32_t seed, std::int64_t count, double scale) {
  Doubles values;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t x = i + (seed << 24);
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    x = (x ^ (x >> 15)) * 0x846CA68Bu;
    x ^= x >> 16;
    values.push_back((static_cast<double>(x >> 8) / (1 << 23) - 1) * scale);
  }
  return values;
}

// out[n] = sum over c of x[c] * w[n, c]
void multiply(const double* w, std::int64_t rows, std::int64_t cols, const double* x, double* out) {
  for (std::int64_t n = 0; n < rows; ++n) out[n] = std::inner_product(x, x + cols, w + n * cols, 0.0);
}

struct MlaWeights {
  Doubles q = noise(1, kHeads* kKey* kHidden, 1.0 / 4);
  Doubles kv_a = noise(2, (kLatent + kRope) * kHidden, 1.0 / 8);
  Doubles norm = noise(3, kLatent, 1.0 / 2);  // less one
  Doubles kv_b = noise(4, kHeads*(kNope + kValue) * kLatent, 1.0 / 16);
  Doubles out = noise(5, kHidden* kHeads* kValue, 1.0 / 16);

  const double* up_key(std::int64_t head) const { return kv_b.data() + head * (kNope + kValue) * kLatent; }
  const double* up_value(std::int64_t head) const { return up_key(head) + kNope * kLatent; }
};

const MlaWeights& weights() {
  static const MlaWeights made;
  return made;
}

enum class Pairs { adjacent, split };

void rotate(double* x, std::int64_t position, Pairs pairs) {
  for (std::int64_t i = 0; i < kRope / 2; ++i) {
    const double angle = static_cast<double>(position) * std::pow(kRopeBase, -2.0 * static_cast<double>(i) / kRope);
    double& a = pairs == Pairs::adjacent ? x[2 * i] : x[i];
    double& b = pairs == Pairs::adjacent ? x[2 * i + 1] : x[i + kRope / 2];
    const double turned = a * std::cos(angle) - b * std::sin(angle);
    b = a * std::sin(angle) + b * std::cos(angle);
    a = turned;
  }
}

// What one token brings: everything of it that attention needs.
struct Token {
  Doubles q = Doubles(at(kHeads * kKey));         // [heads, nope | rope]
  Doubles latent = Doubles(at(kLatent + kRope));  // [latent | RoPE part of the key]

  Token(const double* x, std::int64_t position, Pairs pairs) {
    multiply(weights().q.data(), kHeads * kKey, kHidden, x, q.data());
    multiply(weights().kv_a.data(), kLatent + kRope, kHidden, x, latent.data());
    for (std::int64_t h = 0; h < kHeads; ++h) rotate(q.data() + h * kKey + kNope, position, pairs);
    rotate(latent.data() + kLatent, position, pairs);
    const double squares = std::inner_product(latent.begin(), latent.begin() + kLatent, latent.begin(), 0.0);
    for (std::int64_t i = 0; i < kLatent; ++i) {
      latent[at(i)] *= (1 + weights().norm[at(i)]) / std::sqrt(squares / kLatent + kEpsilon);
    }
  }
};

// A sequence as kernels want it, in one of the two forms.
struct Rows {
  KvGroupSpec spec;
  std::vector<float> q, keys, values;
};

void push(std::vector<float>& rows, std::span<const double> row) { rows.insert(rows.end(), row.begin(), row.end()); }

enum class Form { absorbed, decompressed };

Rows rows_of(const std::vector<Token>& tokens, Form form) {
  const bool absorbed = form == Form::absorbed;
  Rows rows;
  rows.spec.layers = 2;
  rows.spec.kv_heads = absorbed ? 1 : kHeads;
  rows.spec.key_dim = absorbed ? kRope : kKey;
  rows.spec.value_dim = absorbed ? kLatent : kValue;
  rows.spec.latent = absorbed;
  for (const Token& token : tokens) {
    const std::span latent = std::span(token.latent).first(at(kLatent)), rope = std::span(token.latent).last(at(kRope));
    for (std::int64_t h = 0; h < kHeads; ++h) {
      const std::span q = std::span(token.q).subspan(at(h * kKey), at(kKey));
      if (absorbed) {
        Doubles carried(at(kLatent));
        for (std::int64_t n = 0; n < kNope; ++n) {
          for (std::int64_t c = 0; c < kLatent; ++c) carried[at(c)] += q[at(n)] * weights().up_key(h)[n * kLatent + c];
        }
        push(rows.q, carried);
        push(rows.q, q.last(at(kRope)));
      } else {
        Doubles key(at(kNope)), value(at(kValue));
        multiply(weights().up_key(h), kNope, kLatent, latent.data(), key.data());
        multiply(weights().up_value(h), kValue, kLatent, latent.data(), value.data());
        push(rows.q, q);
        push(rows.keys, key);
        push(rows.keys, rope);
        push(rows.values, value);
      }
    }
    if (!absorbed) continue;
    push(rows.keys, rope);
    push(rows.values, latent);
  }
  return rows;
}

// From what attention gives for one token, [heads, value_dim], to the layer's output.
Doubles project_out(const float* context, Form form) {
  Doubles values(at(kHeads * kValue)), out(at(kHidden));
  for (std::int64_t h = 0; h < kHeads; ++h) {
    double* value = values.data() + h * kValue;
    if (form == Form::absorbed) {
      const Doubles latent(context + h * kLatent, context + (h + 1) * kLatent);
      multiply(weights().up_value(h), kValue, kLatent, latent.data(), value);
    } else {
      std::copy_n(context + h * kValue, kValue, value);
    }
  }
  multiply(weights().out.data(), kHidden, kHeads * kValue, values.data(), out.data());
  return out;
}

// One sequence on its way through a cache.
struct Walk {
  SequenceId id;
  Rows rows;
  Form form;
  Doubles out;  // [tokens so far, hidden]
};

struct Part {
  Walk* walk;
  std::int64_t count;
};

// The next tokens of some sequences, all in one batch, as an engine would do it.
void step(KvCache& cache, std::span<const Part> parts, const Ops& ops, double scale) {
  constexpr std::int64_t kLayer = 1;
  const KvGroupLayout& group = cache.layouts()[0];
  const std::int64_t q_width = kHeads * group.wide.query_dim(), out_width = kHeads * group.wide.values.dim;
  std::vector<StepWant> wants;
  for (const Part& part : parts) wants.push_back({part.walk->id, part.count});
  const auto plan = cache.prepare(wants);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  for (const StepPlan::Copy& copy : plan->copies) copy_tokens(group, copy.page.from, copy.page.to, copy.page.tokens);

  std::vector<float> q, keys, values;
  std::vector<KvRows> sequences;
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Walk& walk = *parts[i].walk;
    const std::int64_t first = cache.length(walk.id), count = parts[i].count;
    sequences.push_back({rows, count, first, plan->tables[i][0]});
    const auto take = [&](const std::vector<float>& from, std::vector<float>& to) {
      const std::int64_t width = std::ssize(from) / kTokens;
      to.insert(to.end(), from.begin() + first * width, from.begin() + (first + count) * width);
    };
    take(walk.rows.q, q);
    take(walk.rows.keys, keys);
    take(walk.rows.values, values);
    rows += count;
  }
  ASSERT_EQ(std::ssize(q), rows * q_width);
  std::vector<float> context(at(rows * out_width));
  ThreadPool pool(2);
  const KvTarget kv{&group, kLayer, sequences};
  ops.append({keys.data(), values.data(), kv}, pool);
  ops.attention({q.data(), nullptr, context.data(), kv, kHeads, static_cast<float>(scale), 0, nullptr}, pool);

  for (std::size_t i = 0; i < parts.size(); ++i) {
    Walk& walk = *parts[i].walk;
    std::vector<TokenId> tokens;
    for (std::int64_t r = 0; r < parts[i].count; ++r) {
      const Doubles out = project_out(context.data() + (sequences[i].first_row + r) * out_width, walk.form);
      walk.out.insert(walk.out.end(), out.begin(), out.end());
      tokens.push_back(static_cast<TokenId>(1000 * walk.id + walk.out.size() / at(kHidden)));
    }
    cache.commit(walk.id, tokens);
  }
}

struct Outputs {
  Doubles whole;   // [tokens, hidden]
  Doubles branch;  // [tokens - fork, hidden]
};

// Uneven chunks across page borders; in the middle of the second page a branch parts from the whole,
// and both go on side by side.
Outputs run(Rows whole, Rows branch, Form form, KvFormat format, const Ops& ops, double scale = kScale) {
  CacheOptions options;
  options.groups = {whole.spec};
  options.groups[0].keys = options.groups[0].values = format;
  options.budget_bytes = std::uint64_t{1} << 24;
  options.poison = true;
  const auto cache = std::move(*KvCache::create(options));
  Walk main{1, std::move(whole), form, {}}, other{2, std::move(branch), form, {}};
  EXPECT_TRUE(cache->open(main.id).ok());
  for (const std::int64_t count : {1, 5, 27, 7}) step(*cache, std::vector<Part>{{&main, count}}, ops, scale);
  EXPECT_EQ(cache->length(main.id), kFork);
  EXPECT_TRUE(cache->fork(main.id, other.id).ok());
  step(*cache, std::vector<Part>{{&main, 20}, {&other, 1}}, ops, scale);
  step(*cache, std::vector<Part>{{&other, 30}, {&main, 3}}, ops, scale);
  step(*cache, std::vector<Part>{{&main, 9}, {&other, 1}}, ops, scale);
  EXPECT_GT(cache->stats().counters.copied_pages, 0u) << "the fork was to be in the middle of a page";
  return {std::move(main.out), std::move(other.out)};
}

struct Tokens {
  std::vector<Token> whole, branch;
};

Tokens make_tokens(Pairs pairs) {
  const Doubles x = noise(6, kTokens * kHidden, 2), other = noise(7, (kTokens - kFork) * kHidden, 2);
  Tokens tokens;
  for (std::int64_t t = 0; t < kTokens; ++t) tokens.whole.emplace_back(x.data() + t * kHidden, t, pairs);
  tokens.branch.assign(tokens.whole.begin(), tokens.whole.begin() + kFork);
  for (std::int64_t t = kFork; t < kTokens; ++t) {
    tokens.branch.emplace_back(other.data() + (t - kFork) * kHidden, t, pairs);
  }
  return tokens;
}

const Tokens& right_tokens() {
  static const Tokens made = make_tokens(Pairs::adjacent);
  return made;
}

Outputs run(const Tokens& tokens, Form form, KvFormat format, const Ops& ops, double scale = kScale) {
  return run(rows_of(tokens.whole, form), rows_of(tokens.branch, form), form, format, ops, scale);
}

const Outputs& expected() {
  static const Outputs read = [] {
    std::ifstream in(std::string(QUIRE_TEST_DATA) + "/mla/deepseek_v2.out", std::ios::binary);
    std::uint32_t sizes[3]{};
    in.read(reinterpret_cast<char*>(sizes), sizeof sizes);
    EXPECT_TRUE(sizes[0] == kTokens && sizes[1] == kFork && sizes[2] == kHidden);
    std::vector<float> values(at((2 * kTokens - kFork) * kHidden));
    in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(4 * values.size()));
    EXPECT_TRUE(in.good());
    const auto split = values.begin() + kTokens * kHidden;
    return Outputs{{values.begin(), split}, {split, values.end()}};
  }();
  return read;
}

// The largest difference, in standard deviations of the truth (whose mean is near 0).
double error(const Doubles& truth, const Doubles& got) {
  if (truth.size() != got.size()) return INFINITY;
  double largest = 0, squares = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double difference = std::abs(truth[i] - got[i]);
    if (!std::isfinite(difference)) return INFINITY;
    largest = std::max(largest, difference);
    squares += truth[i] * truth[i];
  }
  return largest / std::sqrt(squares / static_cast<double>(truth.size()));
}

double error(const Outputs& truth, const Outputs& got) {
  return std::max(error(truth.whole, got.whole), error(truth.branch, got.branch));
}

class Mla : public testing::TestWithParam<const Ops*> {};
INSTANTIATE_TEST_SUITE_P(Kernels, Mla, testing::Values(&ref_ops(), &cpu_ops(best_isa())),
                         [](const auto& param) { return std::string(param.param->name); });

TEST_P(Mla, AgreesWithTransformers) {
  const double in_f32 = error(expected(), run(right_tokens(), Form::absorbed, KvFormat::f32, *GetParam()));
  const double in_f16 = error(expected(), run(right_tokens(), Form::absorbed, KvFormat::f16, *GetParam()));
  RecordProperty("error_f32", std::to_string(in_f32));
  RecordProperty("error_f16", std::to_string(in_f16));
  EXPECT_LT(in_f32, kTolerance);
  EXPECT_LT(in_f16, kTolerance16);
}

TEST_P(Mla, AbsorbedIsDecompressed) {
  const Outputs plain = run(right_tokens(), Form::decompressed, KvFormat::f32, *GetParam());
  EXPECT_LT(error(expected(), plain), kTolerance);
  EXPECT_LT(error(plain, run(right_tokens(), Form::absorbed, KvFormat::f32, *GetParam())), kTolerance);
}

// The comparison can fail: each of these mistakes is far outside the tolerance.
TEST_P(Mla, MistakesAreCaught) {
  const auto error_of = [](const Outputs& got) { return error(expected(), got); };
  EXPECT_GT(error_of(run(make_tokens(Pairs::split), Form::absorbed, KvFormat::f32, *GetParam())), 10 * kTolerance);
  for (const double dim : {double{kNope}, double{kLatent + kRope}}) {
    EXPECT_GT(error_of(run(right_tokens(), Form::absorbed, KvFormat::f32, *GetParam(), 1 / std::sqrt(dim))),
              10 * kTolerance);
  }
  Tokens one_wrong = right_tokens();
  for (auto* tokens : {&one_wrong.whole, &one_wrong.branch}) (*tokens)[5].latent[300] = (*tokens)[5].latent[301];
  EXPECT_GT(error_of(run(one_wrong, Form::absorbed, KvFormat::f32, *GetParam())), 10 * kTolerance);
}

// DeepSeek-V3: 61 layers x (512 + 64) values x 2 bytes a token, where 128 heads' own keys and values take 71 times
// that.
TEST(MlaBytes, AreTheLatentsAlone) {
  KvGroupSpec spec;
  spec.layers = 61;
  spec.kv_heads = 1;
  spec.key_dim = 64;
  spec.value_dim = 512;
  spec.latent = true;
  const KvGroupLayout layout = *make_layout(spec);
  EXPECT_EQ(layout.wide.bytes, kPageTokens * 70272);
  EXPECT_EQ(sequence_bytes(layout, 4096), 4096u * 70272u);
  EXPECT_EQ(layout.wide.query_dim(), 576);

  CacheOptions options;
  options.groups = {spec};
  options.budget_bytes = std::uint64_t{1} << 30;
  const auto cache = std::move(*KvCache::create(options));
  EXPECT_EQ(cache->bytes_per_token(), 70272u);
  EXPECT_EQ(cache->estimate_bytes(4096), 4096u * 70272u);

  spec.latent = false;
  spec.kv_heads = 128;
  spec.key_dim = 192;
  spec.value_dim = 128;
  EXPECT_EQ(make_layout(spec)->wide.bytes, kPageTokens * 61 * 128 * (192 + 128) * 2);
}

}  // namespace
}  // namespace quire
