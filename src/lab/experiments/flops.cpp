// Arithmetic and bytes of the two phases, and how near the machine's roofline each comes.
#include <fmt/format.h>

#include <algorithm>

#include "core/fail.h"
#include "lab/bench.h"
#include "lab/experiments/list.h"
#include "lab/plan_cache.h"
#include "lab/plan_speed.h"

namespace quire::lab {
namespace {

struct Phase {
  std::string name;
  double operations, bytes;  // of one step
  std::vector<double> ms;

  double intensity() const { return operations / bytes; }
  Point point() const {
    const Point time = median_point(0, ms);
    const auto speed = [&](double t) { return operations / t * 1e-6; };  // thousand millions a second
    return {intensity(), speed(time.y), speed(time.high), speed(time.low), name};
  }
};

Result<Outcome> run(Workbench& bench) {
  QUIRE_CHECK_OK(bench.at(0, "what the machine does at best"));
  const MachineSpeed machine = bench.machine();
  QUIRE_TRY(const PlanModel plan, model_from_file(bench.info().path));
  QUIRE_TRY(const CacheDemand demand, CacheDemand::create(plan, {CacheSettings{}, 1, 0, true}));
  QUIRE_TRY(Bench speed, Bench::create(bench.model(), {}));
  BenchOptions options;
  options.repeats = bench.choose(7, 3);
  options.cancel = bench.cancel();

  const std::int64_t context = bench.info().context, generated = bench.choose(16, 8);
  const std::int64_t depth = std::min<std::int64_t>(1024, context / 2),
                     chunk = std::min<std::int64_t>(512, context / 2);
  const auto weights = static_cast<double>(plan.weights_bytes);
  std::vector<Phase> phases;
  std::vector<BenchWork> works;
  for (const std::int64_t n : {chunk / 16, chunk}) works.push_back({BenchWork::Kind::prefill, n, 0, 1, 0});
  for (const std::int64_t batch : {1, 4, 16}) {
    works.push_back({BenchWork::Kind::decode, generated, std::min<std::int64_t>(128, context / 4), batch, 0});
  }
  works.push_back({BenchWork::Kind::decode, generated, depth, 1, 0});
  for (std::size_t i = 0; i < works.size(); ++i) {
    const BenchWork& work = works[i];
    const bool prefill = work.kind == BenchWork::Kind::prefill;
    const std::string name = prefill          ? fmt::format("prefill {}", work.tokens)
                             : work.batch > 1 ? fmt::format("decode, {} together", work.batch)
                                              : fmt::format("decode at {}", work.depth);
    QUIRE_CHECK_OK(bench.at(0.05 + 0.85 * static_cast<double>(i) / static_cast<double>(works.size()), name));
    QUIRE_TRY(BenchResult measured, speed.run(work, options));
    Phase phase{name, 0, 0, std::move(measured.ms)};
    if (prefill) {
      phase.operations = operations(plan, {}, 0, work.tokens);
      // The weights once for every chunk that is computed together, and all keys and values once.
      phase.bytes = weights + static_cast<double>(demand.bytes(work.tokens, 1));
    } else {
      const auto batch = static_cast<double>(work.batch);
      phase.operations = batch * operations(plan, {}, work.depth, work.depth + 1);
      phase.bytes = weights + batch * static_cast<double>(demand.bytes(work.depth, 1));
    }
    phases.push_back(std::move(phase));
  }

  Outcome outcome;
  Chart chart{
      "Roofline",
      {"arithmetic intensity", "operations per byte", true},
      {"arithmetic", "10⁹ operations per second", true},
      {},
      {},
      fmt::format(
          "Dashed: what this machine reaches at best, {:.1f} GB/s of reading and {:.0f} thousand million 8-bit "
          "operations a second, both measured. Medians of {} repeats, bars from the 10th to the 90th percentile.",
          machine.read_gbps, machine.int8_gops, options.repeats)};
  Series roof{"roofline", Style::reference, {}};
  const double ridge = machine.int8_gops / machine.read_gbps;
  for (const double x : {0.5, ridge, std::max(2000.0, 2 * ridge)}) {
    roof.points.push_back(exact_point(x, std::min(machine.int8_gops, x * machine.read_gbps)));
  }
  chart.series.push_back(std::move(roof));
  Table table{"One step of each phase",
              {"", "10⁶ operations", "MB read", "operations per byte", "10⁹ operations per second", "of the roof"},
              {}};
  Series prefills{"prefill", Style::points, {}}, decodes{"decode", Style::points, {}};
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const Point p = phases[i].point();
    const double most = std::min(machine.int8_gops, p.x * machine.read_gbps);
    table.rows.push_back({phases[i].name, fmt::format("{:.0f}", phases[i].operations * 1e-6),
                          fmt::format("{:.1f}", phases[i].bytes * 1e-6), fmt::format("{:.1f}", p.x),
                          fmt::format("{:.1f}", p.y), fmt::format("{:.0f} %", 100 * p.y / most)});
    (works[i].kind == BenchWork::Kind::prefill ? prefills : decodes).points.push_back(p);
  }
  const Phase &long_prompt = phases[1], &alone = phases[2];
  chart.series.push_back(std::move(prefills));
  chart.series.push_back(std::move(decodes));
  outcome.charts.push_back(std::move(chart));
  outcome.tables.push_back(std::move(table));

  Table saved{"Operations for a prompt and 100 tokens after it", {"prompt", "with the cache", "without", "ratio"}, {}};
  double last_ratio = 0;
  for (const std::int64_t prompt : {128, 1024, 8192}) {
    const Generating g = generating(plan, demand, prompt, 100);
    last_ratio = g.operations_uncached / g.operations_cached;
    saved.rows.push_back({fmt::format("{}", prompt), fmt::format("{:.2e}", g.operations_cached),
                          fmt::format("{:.2e}", g.operations_uncached), fmt::format("{:.1f}", last_ratio)});
  }
  outcome.tables.push_back(std::move(saved));
  outcome.find(fmt::format(
      "A decoding step does {:.1f} operations for each byte it reads, a prompt of {} does {:.0f}. This machine "
      "turns from reading to computing at {:.0f}: decoding {}, a prompt {}.",
      alone.intensity(), chunk, long_prompt.intensity(), ridge,
      alone.intensity() < ridge ? "waits for memory" : "is bound by arithmetic",
      long_prompt.intensity() < ridge ? "waits for memory" : "is bound by arithmetic"));
  outcome.find(fmt::format(
      "Without a cache, 100 tokens after a prompt of 8192 take {:.0f} times the arithmetic: the cache trades "
      "computing for memory, and what is left to do is reading it.",
      last_ratio));
  outcome.figure("read_gbps", machine.read_gbps);
  outcome.figure("int8_gops", machine.int8_gops);
  outcome.figure("decode_intensity", alone.intensity());
  outcome.figure("prefill_intensity", long_prompt.intensity());
  outcome.figure("decode_gops", alone.point().y);
  outcome.figure("prefill_gops", long_prompt.point().y);
  return outcome;
}

}  // namespace

const Experiment kFlops{"flops",
                        "Arithmetic and bytes: the roofline",
                        "What does each phase compute and read, and which of the two holds it up?",
                        8,
                        3,
                        run};

}  // namespace quire::lab
