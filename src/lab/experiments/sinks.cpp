// Attention sinks: how much attention the first tokens get, and what follows when a window drops them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/fail.h"
#include "lab/experiments/list.h"
#include "lab/inside.h"
#include "lab/perplexity.h"

namespace quire::lab {
namespace {

struct Range {
  std::int64_t first, last;  // positions, both counted in
  std::string name() const { return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last); }
};

Result<void> mass(Workbench& bench, Outcome& outcome) {
  QUIRE_CHECK_OK(bench.at(0, "attention by position"));
  const std::int64_t length = std::min<std::int64_t>(512, bench.info().context / 2 * 2), rows = length / 2;
  QUIRE_TRY(const std::unique_ptr<Inside> inside, Inside::create(bench.model(), length, bench.threads()));
  QUIRE_CHECK_OK(inside->compute(bench.prompt(0, length), length, rows));
  std::vector<Range> ranges{{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 7}, {8, 31}, {32, rows - 1}, {rows, length - 1}};
  std::erase_if(ranges, [](const Range& r) { return r.first > r.last; });
  HeatMap map{"Where attention goes, by layer",
              {"positions", "", false},
              {"layer", "", false},
              fmt::format("Percent of the attention of the queries at positions {} to {}, all heads together.", rows,
                          length - 1),
              {},
              {},
              {}};
  for (const Range& r : ranges) map.columns.push_back(r.name());
  const std::span<const float> attention = inside->attention();
  std::vector<double> first_token;  // [layers]
  const double whole = static_cast<double>(rows) * bench.info().q_heads;
  for (int layer = 0; layer < inside->layers(); ++layer) {
    std::vector<double> row;
    double total = 0;
    for (const Range& r : ranges) {
      double sum = 0;
      for (std::int64_t head = 0; head < inside->kv_heads(); ++head) {
        const std::int64_t start = (layer * inside->kv_heads() + head) * length;
        for (std::int64_t p = r.first; p <= r.last; ++p) sum += attention[static_cast<std::size_t>(start + p)];
      }
      row.push_back(100 * sum / whole);
      total += row.back();
    }
    if (total == 0) continue;  // a layer with a window of its own
    first_token.push_back(row.front());
    map.rows.push_back(fmt::format("{}", layer));
    map.values.push_back(std::move(row));
  }
  outcome.heat_maps.push_back(std::move(map));
  const Point first = median_point(0, first_token);
  const double even = 100.0 / static_cast<double>(length);
  outcome.find(fmt::format(
      "The first token gets {:.0f} % of the attention of queries at least {} tokens later (the median of {} layers, "
      "{:.0f} to {:.0f} %); an even share would be {:.1f} %.",
      first.y, rows, first_token.size(), first.low, first.high, even));
  outcome.figure("first_token_percent", first.y);
  return {};
}

Result<void> fewer_sinks(Workbench& bench, Outcome& outcome) {
  const std::int64_t text = std::ssize(bench.text());
  const std::int64_t kept = std::min<std::int64_t>(256, bench.info().context / 2);
  const std::int64_t ctx = std::min<std::int64_t>({bench.choose(2048, 768), bench.info().context, text});
  PerplexityOptions how;
  how.ctx = ctx;
  how.chunks = std::min<std::int64_t>(bench.choose(2, 1), text / ctx);
  how.score_last = ctx - kept - kept / 4;  // from where the first tokens are long gone
  how.cancel = bench.cancel();
  const std::vector<std::int64_t> sinks{0, 1, 2, 4, 8};
  Series measured{fmt::format("{} tokens kept", kept), Style::line, {}}, full{"everything kept", Style::reference, {}};
  Table table{fmt::format("{} tokens kept of {}", kept, ctx), {"policy", "perplexity", "standard error"}, {}};
  double without = 0, with_four = 0, everything = 0;
  for (std::size_t i = 0; i <= sinks.size(); ++i) {
    CacheSettings cache;
    const bool all = i == sinks.size();
    if (!all)
      cache.policy =
          sinks[i] == 0 ? fmt::format("window:{}", kept) : fmt::format("sinks:{}+{}", sinks[i], kept - sinks[i]);
    QUIRE_CHECK_OK(bench.at(0.1 + 0.9 * static_cast<double>(i) / static_cast<double>(sinks.size() + 1), cache.policy));
    QUIRE_TRY(Session session, bench.open(cache, ctx));
    QUIRE_TRY(const PerplexityReport r, perplexity(*bench.model(), session, bench.text(), how));
    table.rows.push_back({cache.policy, fmt::format("{:.3f}", r.perplexity), fmt::format("{:.3f}", r.standard_error)});
    if (all) {
      everything = r.perplexity;
      for (const double x : {0.0, 8.0}) full.points.push_back(exact_point(x, r.perplexity));
      continue;
    }
    measured.points.push_back(point_with_error(static_cast<double>(sinks[i]), r.perplexity, r.standard_error));
    if (sinks[i] == 0) without = r.perplexity;
    if (sinks[i] == 4) with_four = r.perplexity;
    outcome.figure(fmt::format("perplexity_{}_sinks", sinks[i]), r.perplexity);
  }
  outcome.charts.push_back(
      {"What a few first tokens are worth",
       {"sinks", "tokens", false},
       {"perplexity", "", true},
       {},
       {std::move(full), std::move(measured)},
       fmt::format("A window that keeps {} tokens in all, sinks included. Bars: one standard error.", kept)});
  outcome.tables.push_back(std::move(table));
  outcome.find(fmt::format(
      "With {} tokens kept, perplexity is {:.2f} without sinks and {:.2f} with four; with everything kept it is "
      "{:.2f}. "
      "Softmax has to put its weight somewhere, and models learn to put what they do not need on the first tokens.",
      kept, without, with_four, everything));
  outcome.figure("perplexity_full", everything);
  return {};
}

Result<Outcome> run(Workbench& bench) {
  Outcome outcome;
  QUIRE_CHECK_OK(mass(bench, outcome));
  QUIRE_CHECK_OK(fewer_sinks(bench, outcome));
  return outcome;
}

}  // namespace

const Experiment kSinks{"sinks",
                        "Attention sinks",
                        "How much attention do the first tokens get, and what are they worth to a window?",
                        30,
                        5,
                        run};

}  // namespace quire::lab
