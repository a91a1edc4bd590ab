// What each cache format saves in bytes and costs in fidelity.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "core/fail.h"
#include "lab/experiments/list.h"
#include "lab/perplexity.h"

namespace quire::lab {
namespace {

struct Pair {
  std::string keys, values;
  std::string name() const { return keys == values ? keys : keys + "/" + values; }
};

struct Scored {
  Pair pair;
  double bytes;  // of a token, in sealed pages
  PerplexityReport report;
};

constexpr std::array<const char*, 9> kTypes{"f32", "bf16", "fp8", "q8", "q5", "q4", "k4", "q2", "k2"};

// The ten that people choose among are measured at length, the rest once.
std::vector<Pair> main_pairs(bool quick) {
  if (quick) return {{"f32", "f32"}, {"fp8", "fp8"}, {"q8", "q8"}, {"q4", "q4"}, {"k4", "k4"}, {"k2", "k2"}};
  return {{"f32", "f32"}, {"fp8", "fp8"}, {"q8", "q8"}, {"q5", "q5"}, {"q4", "q4"},
          {"k4", "k4"},   {"q8", "q4"},   {"q4", "q2"}, {"q2", "q2"}, {"k2", "k2"}};
}

std::vector<Pair> other_pairs(bool quick) {
  std::vector<Pair> pairs;
  if (quick) return pairs;
  const std::vector<Pair> known = main_pairs(false);
  for (const char* keys : kTypes) {
    for (const char* values : {keys, "q4"}) {
      const Pair pair{keys, values};
      const auto same = [&](const Pair& p) { return p.name() == pair.name(); };
      if (std::ranges::any_of(known, same) || std::ranges::any_of(pairs, same)) continue;
      pairs.push_back(pair);
    }
  }
  return pairs;
}

// A few at a time: each session has its own scratch memory.
constexpr std::size_t kTogether = 5;

Result<std::vector<Scored>> score(Workbench& bench, const std::vector<Pair>& pairs, const PerplexityOptions& how,
                                  double from, double to) {
  std::vector<Scored> scored;
  QUIRE_TRY(Session base, bench.open({}, how.ctx));
  for (std::size_t first = 0; first < pairs.size(); first += kTogether) {
    const std::size_t count = std::min(kTogether, pairs.size() - first);
    std::vector<Session> sessions;
    std::vector<Session*> pointers;
    sessions.reserve(count);
    for (std::size_t i = first; i < first + count; ++i) {
      CacheSettings cache;
      cache.type_k = pairs[i].keys;
      cache.type_v = pairs[i].values;
      QUIRE_TRY(Session session, bench.open(cache, how.ctx));
      sessions.push_back(std::move(session));
      pointers.push_back(&sessions.back());
    }
    PerplexityOptions options = how;
    options.base = &base;
    options.cancel = bench.cancel();
    const auto tell = [&](std::int64_t chunks) {
      const double done = static_cast<double>(first) + static_cast<double>(count * static_cast<std::size_t>(chunks)) /
                                                           static_cast<double>(std::max<std::int64_t>(how.chunks, 1));
      return bench.at(from + (to - from) * done / static_cast<double>(pairs.size()),
                      fmt::format("{} and others", pairs[first].name()));
    };
    QUIRE_CHECK_OK(tell(0));
    options.on_chunk = [&](const PerplexityReport& r) { (void)tell(r.chunks); };
    QUIRE_TRY(std::vector<PerplexityReport> reports, perplexities(*bench.model(), pointers, bench.text(), options));
    for (std::size_t i = 0; i < count; ++i) {
      scored.push_back({pairs[first + i], static_cast<double>(sessions[i].cache().bytes_per_token), reports[i]});
    }
  }
  return scored;
}

std::vector<std::string> row(const Scored& s, double f16) {
  const Divergence& d = *s.report.divergence;
  return {s.pair.keys,
          s.pair.values,
          fmt::format("{:.0f}", s.bytes),
          fmt::format("{:.3f}", s.report.perplexity),
          fmt::format("{:+.2f} %", 100 * (s.report.perplexity / f16 - 1)),
          fmt::format("{:.5f}", d.mean),
          fmt::format("{:.5f}", d.median),
          fmt::format("{:.4f}", d.p99),
          fmt::format("{:.1f} %", d.same_top_percent)};
}

// Those that nothing is better than in both bytes and divergence, smallest first.
std::vector<const Scored*> pareto_front(const std::vector<Scored>& all) {
  std::vector<const Scored*> sorted, front;
  for (const Scored& s : all) sorted.push_back(&s);
  std::ranges::sort(sorted, [](const Scored* a, const Scored* b) {
    return std::pair(a->bytes, a->report.divergence->mean) < std::pair(b->bytes, b->report.divergence->mean);
  });
  for (const Scored* s : sorted) {
    if (front.empty() || s->report.divergence->mean < front.back()->report.divergence->mean) front.push_back(s);
  }
  return front;
}

// Loss of quality that texts on the subject name for a number of bits, beside what is measured here.
void beside_claims(const std::vector<Scored>& all, double f16, Outcome& outcome) {
  struct Claim {
    const char *format, *said;
    double most;  // percent
  };
  // f16 is the base; against f32 it is the same question.
  constexpr std::array<Claim, 3> kClaims{
      {{"f32", "FP16: less than 0.1 %", 0.1}, {"q8", "INT8: less than 0.5 %", 0.5}, {"q4", "INT4: 1 to 3 %", 3}}};
  Table table{"Claims beside what was measured", {"claimed loss", "here", "perplexity rises by", "holds"}, {}};
  for (const Claim& claim : kClaims) {
    const auto found = std::ranges::find_if(all, [&](const Scored& s) { return s.pair.name() == claim.format; });
    if (found == all.end()) continue;
    const bool is_base = std::string_view(claim.format) == "f32";
    const double other = found->report.perplexity;
    const double loss = 100 * (is_base ? f16 / other - 1 : other / f16 - 1);
    table.rows.push_back({claim.said, is_base ? "f16 against f32" : fmt::format("{} against f16", claim.format),
                          fmt::format("{:+.3f} %", loss), loss <= claim.most ? "yes" : "no"});
    outcome.figure(fmt::format("loss_percent_{}", is_base ? "f16" : claim.format), loss);
  }
  outcome.tables.push_back(std::move(table));
}

Result<Outcome> run(Workbench& bench) {
  PerplexityOptions how;
  how.ctx = std::min<std::int64_t>({bench.choose(2048, 512), bench.info().context, std::ssize(bench.text())});
  how.chunks = std::min<std::int64_t>(bench.choose(6, 1), std::ssize(bench.text()) / how.ctx);
  QUIRE_TRY(Session f16_session, bench.open({}, how.ctx));
  QUIRE_CHECK_OK(bench.at(0, "f16"));
  PerplexityOptions plain = how;
  plain.cancel = bench.cancel();
  QUIRE_TRY(const PerplexityReport f16, perplexity(*bench.model(), f16_session, bench.text(), plain));
  QUIRE_TRY(const std::vector<Scored> all,
            score(bench, main_pairs(bench.quick()), how, 0.04, bench.quick() ? 1 : 0.75));

  Outcome outcome;
  Chart chart{
      "Fidelity against bytes",
      {"cache", "bytes per token", true},
      {"mean divergence from f16", "nats", true},
      {},
      {},
      fmt::format(
          "{} chunks of {} tokens, the second half of each scored. Bars: from the median to the 99th percentile of the "
          "tokens. Dashed: the Pareto front.",
          how.chunks, how.ctx)};
  const std::vector<std::string> columns{"keys",   "values", "bytes per token", "perplexity", "against f16", "mean KLD",
                                         "median", "p99",    "same top token"};
  Table table{fmt::format("f16 has perplexity {:.3f} ± {:.3f}", f16.perplexity, f16.standard_error), columns, {}};
  Series points{"format", Style::points, {}}, front{"Pareto front", Style::reference, {}};
  Series bars{"perplexity", Style::bars, {}};
  std::vector<std::string> names{"f16"};
  bars.points.push_back(point_with_error(0, f16.perplexity, f16.standard_error));
  for (const Scored& s : all) {
    const Divergence& d = *s.report.divergence;
    points.points.push_back({s.bytes, d.mean, std::min(d.median, d.mean), d.p99, s.pair.name()});
    table.rows.push_back(row(s, f16.perplexity));
    bars.points.push_back(
        point_with_error(static_cast<double>(names.size()), s.report.perplexity, s.report.standard_error));
    names.push_back(s.pair.name());
    outcome.figure(fmt::format("kld_{}", s.pair.name()), d.mean);
    outcome.figure(fmt::format("bytes_{}", s.pair.name()), s.bytes);
  }
  std::string best;
  for (const Scored* s : pareto_front(all)) {
    front.points.push_back(exact_point(s->bytes, s->report.divergence->mean));
    best += (best.empty() ? "" : ", ") + s->pair.name();
  }
  chart.series = {std::move(front), std::move(points)};
  outcome.charts.push_back(std::move(chart));
  outcome.charts.push_back(
      {"Perplexity", {"", "", false}, {"perplexity", "", false}, names, {bars}, "Bars: one standard error."});
  outcome.tables.push_back(std::move(table));
  beside_claims(all, f16.perplexity, outcome);
  outcome.find(fmt::format("On the Pareto front of bytes and divergence lie {}.", best));
  for (const char* type : {"q8", "q4", "k2"}) {
    const auto s = std::ranges::find_if(all, [&](const Scored& x) { return x.pair.name() == type; });
    if (s == all.end()) continue;
    outcome.find(
        fmt::format("{} takes {:.2f} of f16's bytes; perplexity {:+.2f} %, mean divergence {:.5f} nats, the same "
                    "likeliest token in "
                    "{:.1f} % of the cases.",
                    type, s->bytes / static_cast<double>(f16_session.cache().bytes_per_token),
                    100 * (s->report.perplexity / f16.perplexity - 1), s->report.divergence->mean,
                    s->report.divergence->same_top_percent));
  }
  const std::vector<Pair> others = other_pairs(bench.quick());
  if (!others.empty()) {
    PerplexityOptions once = how;
    once.chunks = 1;
    PerplexityOptions base = plain;
    base.chunks = 1;
    QUIRE_TRY(const PerplexityReport first, perplexity(*bench.model(), f16_session, bench.text(), base));
    QUIRE_TRY(const std::vector<Scored> rest, score(bench, others, once, 0.75, 1));
    Table more{fmt::format("Other pairs, one chunk (f16: {:.3f})", first.perplexity), columns, {}};
    for (const Scored& s : rest) more.rows.push_back(row(s, first.perplexity));
    outcome.tables.push_back(std::move(more));
  }
  return outcome;
}

}  // namespace

const Experiment kQuant{"quant",
                        "Formats: bytes against fidelity",
                        "How much smaller can keys and values be, and what does that cost?",
                        480,
                        20,
                        run};

}  // namespace quire::lab
