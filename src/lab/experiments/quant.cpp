// What each cache format saves in bytes and costs in fidelity.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

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

constexpr std::array<const char*, 10> kTypes{"f32", "f16", "bf16", "fp8", "q8", "q5", "q4", "k4", "q2", "k2"};

// The ten that people choose among are measured at length, the rest once.
std::vector<Pair> main_pairs(bool quick) {
  if (quick) return {{"f32", "f32"}, {"fp8", "fp8"}, {"q8", "q8"}, {"q4", "q4"}, {"k4", "k4"}, {"k2", "k2"}};
  return {{"f32", "f32"}, {"fp8", "fp8"}, {"q8", "q8"}, {"q5", "q5"}, {"q4", "q4"},
          {"k4", "k4"},   {"q8", "q4"},   {"q4", "q2"}, {"q2", "q2"}, {"k2", "k2"}};
}

// Every keys with every values. f16 with f16 is what the others are held against.
std::vector<Pair> all_pairs() {
  std::vector<Pair> pairs;
  for (const char* keys : kTypes) {
    for (const char* values : kTypes) pairs.push_back({keys, values});
  }
  std::erase_if(pairs, [](const Pair& pair) { return pair.name() == "f16"; });
  return pairs;
}

// A few at a time: each session has its own scratch memory.
constexpr std::size_t kTogether = 5;

struct Scores {
  PerplexityReport f16;
  std::vector<Scored> pairs;
};

Result<Scores> score(Workbench& bench, const std::vector<Pair>& pairs, const PerplexityOptions& how, double from,
                     double to) {
  Scores scored;
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
      scored.pairs.push_back({pairs[first + i], static_cast<double>(sessions[i].cache().bytes_per_token), reports[i]});
    }
    scored.f16 = reports.back();
  }
  return scored;
}

// By how many percent perplexity rises, with the standard error of the rise itself.
Point rise(double x, const Scored& s) {
  const auto percent = [](double loss_rise) { return 100 * (std::exp(loss_rise) - 1); };
  const Divergence& d = *s.report.divergence;
  return {x, percent(d.loss_rise), percent(d.loss_rise - d.loss_rise_error), percent(d.loss_rise + d.loss_rise_error)};
}

std::string spelled(const Point& rise) { return fmt::format("{:+.2f} ± {:.2f} %", rise.y, (rise.high - rise.low) / 2); }

std::vector<std::string> row(const Scored& s) {
  const Divergence& d = *s.report.divergence;
  return {s.pair.keys,
          s.pair.values,
          fmt::format("{:.0f}", s.bytes),
          fmt::format("{:.3f}", s.report.perplexity),
          spelled(rise(0, s)),
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
void beside_claims(const std::vector<Scored>& all, Outcome& outcome) {
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
    Scored measured = *found;
    if (is_base) measured.report.divergence->loss_rise *= -1;
    const Point loss = rise(0, measured);
    table.rows.push_back({claim.said, is_base ? "f16 against f32" : fmt::format("{} against f16", claim.format),
                          spelled(loss), loss.y <= claim.most ? "yes" : "no"});
    outcome.figure(fmt::format("loss_percent_{}", is_base ? "f16" : claim.format), loss.y);
  }
  outcome.tables.push_back(std::move(table));
}

Result<void> every_pair(Workbench& bench, const PerplexityOptions& how, Outcome& outcome) {
  QUIRE_TRY(const Scores all, score(bench, all_pairs(), how, 0.65, 1));
  const auto map = [&](std::string title, std::string value, bool logarithmic, const auto& of) {
    HeatMap m{std::move(title), {"values", "", false}, {"keys", "", false}, std::move(value), {}, {}, {}, logarithmic};
    for (const char* keys : kTypes) {
      m.columns.emplace_back(keys);
      m.rows.emplace_back(keys);
      m.values.emplace_back();
      for (const char* values : kTypes) {
        const Pair pair{keys, values};
        const auto s = std::ranges::find_if(all.pairs, [&](const Scored& x) { return x.pair.name() == pair.name(); });
        m.values.back().push_back(s == all.pairs.end() ? std::nan("") : of(*s));
      }
    }
    outcome.heat_maps.push_back(std::move(m));
  };
  const std::string chunk = fmt::format("one chunk of {} tokens", how.ctx);
  map("Keys and values apart: divergence",
      fmt::format("Mean divergence from f16 in thousandths of a nat, {}. Colours are logarithmic.", chunk), true,
      [](const Scored& s) { return 1000 * s.report.divergence->mean; });
  map("Keys and values apart: perplexity", fmt::format("Percent by which it rises against f16, {}.", chunk), false,
      [](const Scored& s) { return rise(0, s).y; });
  map("Keys and values apart: memory", "Bytes of a token in sealed pages.", false,
      [](const Scored& s) { return s.bytes; });
  return {};
}

Result<Outcome> run(Workbench& bench) {
  PerplexityOptions how;
  how.ctx = std::min<std::int64_t>({bench.choose(1024, 512), bench.info().context, std::ssize(bench.text())});
  how.chunks = std::min<std::int64_t>(bench.choose(6, 1), std::ssize(bench.text()) / how.ctx);
  QUIRE_TRY(const Scores scores, score(bench, main_pairs(bench.quick()), how, 0, bench.quick() ? 1 : 0.65));
  const PerplexityReport& f16 = scores.f16;

  Outcome outcome;
  const std::string measured = fmt::format("{} chunk{} of {} tokens, the second half of each scored.", how.chunks,
                                           how.chunks == 1 ? "" : "s", how.ctx);
  Chart chart{"Fidelity against bytes",
              {"cache", "bytes per token", true},
              {"mean divergence from f16", "nats", true},
              {},
              {},
              measured + " Bars: from the median to the 99th percentile of the tokens. Dashed: the Pareto front."};
  Table table{
      fmt::format("f16 has perplexity {:.3f} ± {:.3f}", f16.perplexity, f16.standard_error),
      {"keys", "values", "bytes per token", "perplexity", "against f16", "mean KLD", "median", "p99", "same top token"},
      {}};
  Series points{"format", Style::points, {}}, front{"Pareto front", Style::reference, {}};
  Series bars{"perplexity rises by", Style::bars, {}};
  std::vector<std::string> names;
  for (const Scored& s : scores.pairs) {
    const Divergence& d = *s.report.divergence;
    points.points.push_back({s.bytes, d.mean, std::min(d.median, d.mean), d.p99, s.pair.name()});
    table.rows.push_back(row(s));
    bars.points.push_back(rise(static_cast<double>(names.size()), s));
    names.push_back(s.pair.name());
    outcome.figure(fmt::format("kld_{}", s.pair.name()), d.mean);
    outcome.figure(fmt::format("bytes_{}", s.pair.name()), s.bytes);
  }
  std::string best;
  for (const Scored* s : pareto_front(scores.pairs)) {
    front.points.push_back(exact_point(s->bytes, s->report.divergence->mean));
    best += (best.empty() ? "" : ", ") + s->pair.name();
  }
  chart.series = {std::move(front), std::move(points)};
  outcome.charts.push_back(std::move(chart));
  outcome.charts.push_back({"What each format costs",
                            {"keys/values", "", false},
                            {"perplexity against f16", "percent", false},
                            names,
                            {bars},
                            measured + " Bars: one standard error of the difference, token by token."});
  outcome.tables.push_back(std::move(table));
  beside_claims(scores.pairs, outcome);
  outcome.find(fmt::format("On the Pareto front of bytes and divergence lie {}.", best));
  QUIRE_TRY(const Session f16_session, bench.open({}, how.ctx));
  for (const char* type : {"q8", "q4", "k2"}) {
    const auto s = std::ranges::find_if(scores.pairs, [&](const Scored& x) { return x.pair.name() == type; });
    if (s == scores.pairs.end()) continue;
    outcome.find(fmt::format(
        "{} takes {:.2f} of f16's bytes; perplexity {}, mean divergence {:.5f} nats, the same likeliest token in "
        "{:.1f} % of the cases.",
        type, s->bytes / static_cast<double>(f16_session.cache().bytes_per_token), spelled(rise(0, *s)),
        s->report.divergence->mean, s->report.divergence->same_top_percent));
  }
  if (!bench.quick()) {
    PerplexityOptions once = how;
    once.ctx = std::min<std::int64_t>(512, how.ctx);
    once.chunks = 1;
    QUIRE_CHECK_OK(every_pair(bench, once, outcome));
  }
  return outcome;
}

}  // namespace

const Experiment kQuant{"quant",
                        "Formats: bytes against fidelity",
                        "How much smaller can keys and values be, and what does that cost?",
                        170,
                        6,
                        run};

}  // namespace quire::lab
