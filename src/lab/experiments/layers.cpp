// How alike the keys and values of neighbouring layers are, and what merging them costs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/fail.h"
#include "kv/minicache.h"
#include "lab/experiments/list.h"
#include "lab/inside.h"
#include "lab/perplexity.h"
#include "lab/plan_cache.h"

namespace quire::lab {
namespace {

// As the paper on MiniCache chose them: towards the later layer, and 5 % of the tokens left apart.
constexpr double kToward = 0.6, kApart = 0.05;
constexpr std::int64_t kTile = 256;  // tokens that one byte can tell apart

std::span<const float> row(const std::vector<float>& rows, std::int64_t token, std::int64_t dim) {
  return std::span(rows).subspan(static_cast<std::size_t>(token * dim), static_cast<std::size_t>(dim));
}

// Cosines between a layer's rows and the next one's, one for each head: the mean over the tokens.
std::vector<double> cosines(const Inside& inside, KvStream stream, std::int64_t layer) {
  std::vector<double> heads;
  for (std::int64_t head = 0; head < inside.kv_heads(); ++head) {
    const auto a = inside.read(stream, layer, head), b = inside.read(stream, layer + 1, head);
    double sum = 0;
    for (std::int64_t t = 0; t < inside.length(); ++t) {
      sum += std::cos(3.141592653589793 *
                      minicache::angular_distance(row(a, t, inside.head_dim()), row(b, t, inside.head_dim())));
    }
    heads.push_back(sum / static_cast<double>(inside.length()));
  }
  return heads;
}

void merge_layers(Inside& inside, KvStream stream, std::int64_t layer) {
  const std::int64_t dim = inside.head_dim();
  for (std::int64_t head = 0; head < inside.kv_heads(); ++head) {
    auto a = inside.read(stream, layer, head), b = inside.read(stream, layer + 1, head);
    const auto apart = minicache::unmerged_tokens(a, b, dim, kApart);
    for (std::int64_t t = 0; t < inside.length(); ++t) {
      if (std::ranges::binary_search(apart, t)) continue;
      const auto merged = minicache::merge(row(a, t, dim), row(b, t, dim), kToward);
      const auto put = [&](std::vector<float>& rows, float magnitude) {
        std::ranges::copy(minicache::restore(merged.direction, magnitude), rows.begin() + t * dim);
      };
      put(a, merged.magnitude_a);
      put(b, merged.magnitude_b);
    }
    inside.write(stream, layer, head, a);
    inside.write(stream, layer + 1, head, b);
  }
}

struct Merged {
  std::int64_t first_layer;  // those from here on are merged, two by two
  double bytes;              // of the cache, against the whole
  std::vector<double> losses;
};

Result<Merged> merge_from(Inside& inside, const Tokens& tokens, std::int64_t prefix, std::int64_t first_layer) {
  inside.reset();
  QUIRE_CHECK_OK(inside.compute(std::span(tokens).first(static_cast<std::size_t>(prefix)), prefix));
  Merged result{first_layer, 1, {}};
  const std::int64_t layers = inside.layers(), dim = inside.head_dim();
  std::int64_t pairs = 0;
  for (std::int64_t layer = first_layer; layer + 1 < layers; layer += 2, ++pairs) {
    merge_layers(inside, KvStream::keys, layer);
    merge_layers(inside, KvStream::values, layer);
  }
  // What a pair of layers takes, by tiles.
  const auto whole = static_cast<double>(2 * kTile * dim * 2);
  const auto pair = static_cast<double>(minicache::pair_bytes(kTile, minicache::unmerged_count(kTile, kApart), dim, 2));
  result.bytes = 1 - static_cast<double>(pairs) * (whole - pair) / (whole / 2 * static_cast<double>(layers));
  const auto rest = std::span(tokens).subspan(static_cast<std::size_t>(prefix));
  QUIRE_TRY(const auto logits, inside.compute(rest.first(rest.size() - 1), 0));
  const std::size_t vocabulary = logits.size() / (rest.size() - 1);
  for (std::size_t i = 0; i + 1 < rest.size(); ++i) {
    result.losses.push_back(loss(logits.subspan(i * vocabulary, vocabulary), rest[i + 1]));
  }
  return result;
}

Result<Outcome> run(Workbench& bench) {
  const std::int64_t prefix = std::min<std::int64_t>(bench.choose(768, 384), bench.info().context / 2);
  const std::int64_t scored = std::min<std::int64_t>(bench.choose(256, 128), bench.info().context / 4);
  const Tokens tokens = bench.prompt(0, prefix + scored);
  const int layers = bench.info().layers;
  if (layers < 2) return fail(Errc::unsupported, "a model of one layer has no neighbours");
  QUIRE_CHECK_OK(bench.at(0, "keys and values of all layers"));
  QUIRE_TRY(const std::unique_ptr<Inside> inside, Inside::create(bench.model(), prefix + scored, bench.threads()));
  QUIRE_CHECK_OK(inside->compute(std::span(tokens).first(static_cast<std::size_t>(prefix)), prefix));
  Outcome outcome;
  Series keys{"keys", Style::line, {}}, values{"values", Style::line, {}};
  for (int layer = 0; layer + 1 < layers; ++layer) {
    keys.points.push_back(median_point(layer, cosines(*inside, KvStream::keys, layer)));
    values.points.push_back(median_point(layer, cosines(*inside, KvStream::values, layer)));
  }
  const auto half_mean = [&](const Series& s, bool late) {
    double sum = 0, count = 0;
    for (const Point& p : s.points) {
      if ((p.x >= layers / 2.0) == late) sum += p.y, ++count;
    }
    return count > 0 ? sum / count : 0;
  };
  outcome.find(
      fmt::format("Neighbouring layers' keys have a cosine of {:.2f} in the first half of the layers and {:.2f} in the "
                  "second; values "
                  "{:.2f} and {:.2f} (1: the same direction, 0: nothing in common).",
                  half_mean(keys, false), half_mean(keys, true), half_mean(values, false), half_mean(values, true)));
  outcome.figure("cosine_keys", (half_mean(keys, false) + half_mean(keys, true)) / 2);
  outcome.figure("cosine_values", (half_mean(values, false) + half_mean(values, true)) / 2);
  outcome.charts.push_back(
      {"How alike neighbouring layers are",
       {"layer, beside the next", "", false},
       {"cosine", "", false},
       {},
       {std::move(keys), std::move(values)},
       fmt::format("Rows of {} tokens; the median of the heads, bars from the 10th to the 90th percentile of them.",
                   prefix)});

  QUIRE_TRY(const Merged none, merge_from(*inside, tokens, prefix, layers));
  Series merged{"MiniCache", Style::line, {}};
  merged.points.push_back(perplexity_point(100, none.losses));
  Table table{fmt::format("MiniCache: pairs of layers merged after a prompt of {} tokens", prefix),
              {"merged from layer", "bytes", "perplexity", "against unmerged"},
              {{"none", "100 %", fmt::format("{:.3f}", merged.points.front().y), "-"}}};
  std::vector<std::int64_t> starts;
  for (const int part : {7, 6, 4, 2, 0}) starts.push_back(layers * part / 8);
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  double at_half = 0, half_bytes = 1;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    QUIRE_CHECK_OK(bench.at(0.3 + 0.7 * static_cast<double>(i) / static_cast<double>(starts.size()),
                            fmt::format("merged from layer {}", starts[i])));
    QUIRE_TRY(const Merged m, merge_from(*inside, tokens, prefix, starts[i]));
    merged.points.push_back(perplexity_point(100 * m.bytes, m.losses, fmt::format("from {}", starts[i])));
    const double perplexity = merged.points.back().y, rise = perplexity / merged.points.front().y - 1;
    table.rows.push_back({fmt::format("{}", starts[i]), fmt::format("{:.1f} %", 100 * m.bytes),
                          fmt::format("{:.3f}", perplexity), fmt::format("{:+.1f} %", 100 * rise)});
    if (starts[i] == layers / 2) at_half = rise, half_bytes = m.bytes;
    outcome.figure(fmt::format("rise_from_{}", starts[i]), rise);
  }
  outcome.charts.push_back(
      {"Merging layers: bytes against perplexity",
       {"cache", "percent of its bytes", false},
       {"perplexity", "", true},
       {},
       {std::move(merged)},
       fmt::format("Of the {} tokens after a prompt of {}, whose keys and values are merged. Bars: one standard error.",
                   scored - 1, prefix)});
  outcome.tables.push_back(std::move(table));
  QUIRE_TRY(const PlanModel plan, model_from_file(bench.info().path));
  QUIRE_TRY(const CacheDemand one, CacheDemand::create(plan, {CacheSettings{}, 1, 0, false}));
  QUIRE_TRY(const CacheDemand two, CacheDemand::create(plan, {CacheSettings{}, 2, 0, false}));
  outcome.find(
      fmt::format("Merging the later half of the layers saves {:.0f} % of the cache and changes perplexity by {:+.1f} "
                  "%. Cross-layer "
                  "attention, where two layers are trained to share one cache, would save {:.0f} %; a model that was "
                  "not trained so "
                  "cannot have it for nothing.",
                  100 * (1 - half_bytes), 100 * at_half, 100 * (1 - two.bytes_per_token() / one.bytes_per_token())));
  return outcome;
}

}  // namespace

const Experiment kLayers{"layers",
                         "Layers: neighbours alike",
                         "How alike are the keys and values of neighbouring layers, and can two be kept as one?",
                         8,
                         3,
                         run};

}  // namespace quire::lab
