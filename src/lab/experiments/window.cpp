// Sliding windows: what fails first as the window shrinks, with and without sinks, and past the trained context.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/fail.h"
#include "lab/experiments/list.h"
#include "lab/experiments/needle.h"
#include "lab/experiments/text_measures.h"
#include "lab/perplexity.h"

namespace quire::lab {
namespace {

constexpr std::int64_t kSinks = 4;

std::string spelled(std::int64_t window, bool sinks) {
  if (window == 0) return "full";
  return sinks ? fmt::format("sinks:{}+{}", kSinks, window - kSinks) : fmt::format("window:{}", window);
}

CacheSettings keeping(std::int64_t window, bool sinks) {
  CacheSettings cache;
  cache.policy = spelled(window, sinks);
  return cache;
}

// The same tokens at the end of a long text, seen through windows and in contexts computed afresh.
Result<void> perplexity_by_window(Workbench& bench, Outcome& outcome) {
  const std::int64_t text = std::ssize(bench.text());
  const std::int64_t ctx = std::min<std::int64_t>({bench.choose(4096, 1024), bench.info().context, text});
  PerplexityOptions how;
  how.ctx = ctx;
  how.chunks = 1;
  how.score_last = ctx / 2 - 1;
  how.cancel = bench.cancel();
  std::vector<std::int64_t> windows;
  for (std::int64_t w = ctx / 2; w >= 32 && std::ssize(windows) < 4; w /= 2) windows.push_back(w);
  const Axis axis{"window", "tokens", true};
  std::array<Series, 3> series{Series{"window", Style::line, {}},
                               Series{fmt::format("window with {} sinks", kSinks), Style::line, {}},
                               Series{"computed afresh", Style::line, {}}};
  Table table{fmt::format("Perplexity of the last {} of {} tokens", ctx / 2 - 1, ctx),
              {"window", "plain", "with sinks", "computed afresh"},
              {}};
  QUIRE_CHECK_OK(bench.at(0, "everything kept"));
  QUIRE_TRY(Session everything, bench.open({}, ctx));
  QUIRE_TRY(const PerplexityReport full, perplexity(*bench.model(), everything, bench.text(), how));
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const std::int64_t w = windows[i];
    std::vector<std::string> row{fmt::format("{}", w)};
    for (std::size_t kind = 0; kind < 3; ++kind) {
      QUIRE_CHECK_OK(bench.at(0.05 + 0.3 * static_cast<double>(3 * i + kind) / static_cast<double>(3 * windows.size()),
                              fmt::format("{}, {}", series[kind].name, w)));
      PerplexityOptions options = how;
      CacheSettings cache;
      if (kind == 2) {  // contexts that overlap by half: each token sees half a window to a whole one
        options.ctx = w;
        options.stride = w / 2;
        options.score_last = w / 2 - 1;
        options.skip = ctx / 2 - w / 2;
        options.chunks = (ctx / 2) / (w / 2);
      } else {
        cache = keeping(w, kind == 1);
      }
      auto session = bench.open(cache, kind == 2 ? w : ctx);
      if (!session.ok() && session.error().code == Errc::unsupported) {
        row.push_back("-");
        continue;
      }
      if (!session.ok()) return session.error();
      QUIRE_TRY(const PerplexityReport r, perplexity(*bench.model(), *session, bench.text(), options));
      series[kind].points.push_back(point_with_error(static_cast<double>(w), r.perplexity, r.standard_error));
      row.push_back(fmt::format("{:.3f} ± {:.3f}", r.perplexity, r.standard_error));
      outcome.figure(fmt::format("perplexity_{}_{}",
                                 kind == 0   ? "window"
                                 : kind == 1 ? "sinks"
                                             : "afresh",
                                 w),
                     r.perplexity);
    }
    table.rows.push_back(std::move(row));
  }
  Series whole{"everything kept", Style::reference, {}};
  for (const std::int64_t w : {windows.back(), windows.front()})
    whole.points.push_back(exact_point(static_cast<double>(w), full.perplexity));
  outcome.figure("perplexity_full", full.perplexity);
  table.rows.insert(
      table.rows.begin(),
      std::vector<std::string>{"full", fmt::format("{:.3f} ± {:.3f}", full.perplexity, full.standard_error), "-", "-"});
  const auto last = [](const Series& s) { return s.points.empty() ? 0 : s.points.back().y; };
  outcome.find(
      fmt::format("Everything kept gives a perplexity of {:.2f}. A window of {} gives {:.2f} plain, {:.2f} with {} "
                  "sinks, and {:.2f} where "
                  "each context is computed afresh.",
                  full.perplexity, windows.back(), last(series[0]), last(series[1]), kSinks, last(series[2])));
  Chart chart{"Perplexity by window",     axis, {"perplexity", "", true}, {}, {std::move(whole)},
              "Bars: one standard error."};
  for (Series& s : series) {
    if (!s.points.empty()) chart.series.push_back(std::move(s));
  }
  outcome.charts.push_back(std::move(chart));
  outcome.tables.push_back(std::move(table));
  return {};
}

enum Measure { kRecall, kFresh, kTopic, kCode, kMeasures };
constexpr std::array<const char*, kMeasures> kNames{"exact recall", "local fluency (what does not repeat)",
                                                    "topic (words from the prompt)", "valid lines of code"};

// Each measure is a part of 1; samples over prompts.
using Samples = std::array<std::vector<double>, kMeasures>;

Result<std::string> generate(Session& session, const Model& model, const Tokens& prompt, std::int64_t count) {
  session.reset();
  QUIRE_TRY(auto logits, session.prefill(prompt));
  Tokens tokens{likeliest(logits)};
  while (std::ssize(tokens) < count) {
    QUIRE_TRY(logits, session.decode(tokens.back()));
    tokens.push_back(likeliest(logits));
  }
  return model.text(tokens);
}

Result<Samples> behaviour(Workbench& bench, std::int64_t window, std::int64_t length, double from, double to) {
  const Model& model = *bench.model();
  const std::int64_t generated = bench.choose(96, 32);
  const int facts = bench.choose(10, 3), texts = bench.choose(3, 1);
  QUIRE_TRY(Session session, bench.open(keeping(window, true)));
  Samples samples;
  const double whole = facts + 2 * texts;
  double done = 0;
  const auto next = [&] { return bench.at(from + (to - from) * done++ / whole, spelled(window, true)); };
  for (int i = 0; i < facts; ++i) {
    QUIRE_CHECK_OK(next());
    const Needle needle = plant_needle(bench, length, facts, i);
    QUIRE_TRY(const std::string answer, generate(session, model, needle.prompt, kNeedleAnswer));
    samples[kRecall].push_back(needle.answered_by(answer) ? 1 : 0);
  }
  for (int i = 0; i < texts; ++i) {
    QUIRE_CHECK_OK(next());
    const Tokens prompt = bench.prompt(1100 * i, length);
    QUIRE_TRY(const std::string text, generate(session, model, prompt, generated));
    samples[kFresh].push_back(1 - repetition(text));
    samples[kTopic].push_back(topic_overlap(model.text(prompt), text));
    QUIRE_CHECK_OK(next());
    const std::string program = made_code(static_cast<std::size_t>(3 * length), static_cast<unsigned>(i + 1));
    Tokens code = model.tokenize(program);
    if (std::ssize(code) > length)
      code.erase(code.begin() + (model.adds_bos() ? 1 : 0), code.end() - length + (model.adds_bos() ? 1 : 0));
    QUIRE_TRY(const std::string lines, generate(session, model, code, generated));
    samples[kCode].push_back(valid_lines(program, lines));
  }
  return samples;
}

Result<void> what_fails_first(Workbench& bench, Outcome& outcome) {
  const std::int64_t length = std::min<std::int64_t>(bench.choose(1200, 400), bench.info().context - 100);
  std::vector<std::int64_t> windows{0};
  for (const std::int64_t w : bench.choose<std::vector<std::int64_t>>({1024, 512, 256, 128}, {256, 64})) {
    if (w < length) windows.push_back(w);
  }
  if (length < 16) return fail(Errc::unsupported, "the model's context of {} is too short", bench.info().context);
  std::vector<Samples> all;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const double from = 0.36 + 0.5 * static_cast<double>(i) / static_cast<double>(windows.size());
    QUIRE_TRY(Samples samples,
              behaviour(bench, windows[i], length, from, from + 0.5 / static_cast<double>(windows.size())));
    all.push_back(std::move(samples));
    names.push_back(windows[i] == 0 ? "full" : fmt::format("{}", windows[i]));
  }
  Chart chart{
      "What fails first",
      {"tokens kept, sinks included", "", false},
      {"part of what full attention does", "percent", false},
      names,
      {},
      fmt::format("After prompts of {} tokens, with {} sinks. Means; bars: one standard error.", length, kSinks)};
  Table table{fmt::format("After prompts of {} tokens", length), {"measure"}, {}};
  for (const std::string& name : names) table.columns.push_back(name);
  std::vector<std::pair<std::int64_t, std::string>> failed;  // the largest window at which a measure has lost a fifth
  for (std::size_t m = 0; m < kMeasures; ++m) {
    const double base = mean_point(0, all[0][m]).y;
    Series series{kNames[m], Style::line, {}};
    std::vector<std::string> row{kNames[m]};
    std::optional<std::int64_t> first;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Point mean = mean_point(static_cast<double>(i), all[i][m]);
      const double value = mean.y;
      row.push_back(fmt::format("{:.0f} %", 100 * value));
      if (base > 0)
        series.points.push_back(point_with_error(mean.x, 100 * value / base, 100 * (mean.high - value) / base));
      if (i > 0 && base > 0 && value < 0.8 * base && !first) first = windows[i];
      outcome.figure(fmt::format("measure_{}_{}", m, names[i]), value);
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
    table.rows.push_back(std::move(row));
    if (first) failed.emplace_back(*first, kNames[m]);
  }
  if (!chart.series.empty()) outcome.charts.push_back(std::move(chart));
  outcome.tables.push_back(std::move(table));
  std::ranges::stable_sort(failed, [](const auto& a, const auto& b) { return a.first > b.first; });
  if (failed.empty()) {
    outcome.find("None of the four measures lost a fifth of what full attention does.");
  } else {
    std::string order;
    for (const auto& f : failed)
      order += fmt::format("{}{} (at {})", order.empty() ? "" : ", then ", f.second, f.first);
    outcome.find(fmt::format("As the window shrinks, a fifth of what full attention does is lost first by {}.", order));
  }
  return {};
}

// Past what the model was trained for, in constant memory.
Result<void> streaming(Workbench& bench, Outcome& outcome) {
  const std::int64_t trained = bench.info().context, more = std::min<std::int64_t>(1024, trained / 4),
                     window = std::min<std::int64_t>(512, trained / 4);
  const std::int64_t length = trained + more;
  if (std::ssize(bench.text()) < length || (bench.quick() && trained > 2048)) return {};
  Table table{fmt::format("The last {} of {} tokens; the model was trained for {}", more, length, trained),
              {"cache", "perplexity", "MiB held"},
              {}};
  for (const bool sinks : {true, false}) {
    QUIRE_CHECK_OK(bench.at(sinks ? 0.87 : 0.93, "past the trained context"));
    auto session = bench.open(keeping(window, sinks), length);
    if (!session.ok() && session.error().code == Errc::unsupported) continue;
    if (!session.ok()) return session.error();
    PerplexityOptions how;
    how.ctx = length;
    how.chunks = 1;
    how.score_last = more;
    how.cancel = bench.cancel();
    const auto r = perplexity(*bench.model(), *session, bench.text(), how);
    if (!r.ok() && r.error().code == Errc::invalid_argument)
      return {};  // positions were learned: there is no past the end
    if (!r.ok()) return r.error();
    table.rows.push_back({spelled(window, sinks), fmt::format("{:.3f} ± {:.3f}", r->perplexity, r->standard_error),
                          fmt::format("{:.1f}", static_cast<double>(session->cache().bytes) / (1 << 20))});
    outcome.figure(sinks ? "streaming_sinks" : "streaming_window", r->perplexity);
    if (sinks) {
      outcome.find(fmt::format("Streaming {} tokens past the trained context with {}: perplexity {:.2f} in {:.1f} MiB.",
                               more, spelled(window, sinks), r->perplexity,
                               static_cast<double>(session->cache().bytes) / (1 << 20)));
    }
  }
  outcome.tables.push_back(std::move(table));
  return {};
}

Result<Outcome> run(Workbench& bench) {
  Outcome outcome;
  QUIRE_CHECK_OK(perplexity_by_window(bench, outcome));
  QUIRE_CHECK_OK(what_fails_first(bench, outcome));
  QUIRE_CHECK_OK(streaming(bench, outcome));
  return outcome;
}

}  // namespace

const Experiment kWindow{"window",
                         "Windows: what fails first",
                         "What is lost as a sliding window shrinks, and can a text go past the trained context?",
                         190,
                         18,
                         run};

}  // namespace quire::lab
