// The same memory, spent differently: how many sequences fit, and how many tokens a second that makes.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "core/fail.h"
#include "lab/experiments/list.h"
#include "lab/plan_cache.h"

namespace quire::lab {
namespace {

constexpr double kMiB = 1 << 20;

struct Way {
  std::string name;
  CacheSettings cache;
  bool preallocated = false;
};

Way way(const char* type_k, const char* type_v, const std::string& policy, std::string name = {}) {
  Way w;
  w.cache.type_k = type_k;
  w.cache.type_v = type_v;
  w.cache.policy = policy;
  w.name =
      !name.empty() ? std::move(name)
      : policy == "full"
          ? fmt::format("paged {}", type_k == std::string_view(type_v) ? type_k : fmt::format("{}/{}", type_k, type_v))
          : fmt::format("paged {} {}", type_k, policy);
  return w;
}

struct Load {
  std::int64_t requests, prompt, generated;
};

struct Held {
  std::int64_t most_running = 0;
  std::uint64_t preemptions = 0;
  std::vector<double> tokens_per_second;  // generated, of each repeat
};

Result<Held> serve(Workbench& bench, const Way& w, const Load& load, std::uint64_t budget, std::int64_t allowed,
                   double part) {
  QUIRE_CHECK_OK(bench.at(part, w.name));
  EngineOptions options;
  options.cache = w.cache;
  options.cache.bytes = budget;
  options.max_running = allowed;
  options.share_prefixes = false;
  QUIRE_TRY(Engine engine, bench.start(options));
  Held held;
  for (int repeat = 0; repeat < 2; ++repeat) {
    const auto start = Clock::now();
    std::vector<Stream> streams;
    for (std::int64_t i = 0; i < load.requests; ++i) {
      QUIRE_TRY(Stream stream, engine.submit(greedy_request(bench.prompt(37 * i, load.prompt), load.generated)));
      streams.push_back(std::move(stream));
    }
    // Until every answer is whole: what was just submitted may be neither running nor waiting yet.
    const auto read_up = [](Stream& stream) {
      while (stream.try_next()) {
      }
      return stream.ended();
    };
    while (std::ranges::count_if(streams, read_up) < std::ssize(streams)) {
      held.most_running = std::max(held.most_running, engine.stats().running);
      QUIRE_CHECK_OK(bench.at(part, w.name));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    std::int64_t generated = 0;
    for (const Stream& stream : streams) {
      QUIRE_TRY(const RequestReport report, stream.report());
      generated += report.generated_tokens;
    }
    held.tokens_per_second.push_back(static_cast<double>(generated) / milliseconds_since(start) * 1000);
  }
  held.preemptions = engine.stats().preemptions;
  return held;
}

Result<Outcome> run(Workbench& bench) {
  const std::int64_t most = bench.info().context, context = std::min<std::int64_t>(1024, most);
  const Load load{bench.choose(16, 12), std::min<std::int64_t>(bench.choose(224, 96), most / 4),
                  std::min<std::int64_t>(bench.choose(48, 24), most / 4)};
  const std::int64_t length = load.prompt + load.generated;
  QUIRE_TRY(const PlanModel plan, model_from_file(bench.info().path));
  QUIRE_TRY(const CacheDemand f16, CacheDemand::create(plan, {CacheSettings{}, 1, 0, true}));
  // Room for four sequences that each reserve the whole context, and no less than the pool's slabs need.
  const std::uint64_t budget = std::max<std::uint64_t>(4 * f16.preallocated_bytes(context), std::uint64_t{16} << 20);

  std::vector<Way> ways;
  ways.push_back(way("f16", "f16", "full", "preallocated f16"));
  ways.back().preallocated = true;
  for (const char* type : {"f16", "q8", "q4", "k2"}) ways.push_back(way(type, type, "full"));
  ways.push_back(way("f16", "f16", "h2o:20%"));
  ways.push_back(way("f16", "f16", fmt::format("window:{}", std::max<std::int64_t>(length / 4, 32))));

  Outcome outcome;
  Series fit{"sequences that fit", Style::bars, {}}, speed{"generated tokens per second", Style::bars, {}};
  std::vector<std::string> names;
  Table table{fmt::format("{:.0f} MiB of cache; {} requests of {} + {} tokens", static_cast<double>(budget) / kMiB,
                          load.requests, load.prompt, load.generated),
              {"cache", "fit by the formula", "most at once", "tokens per second", "preempted"},
              {}};
  std::vector<double> fitting, speeds;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const Way& w = ways[i];
    QUIRE_TRY(const CacheDemand demand, CacheDemand::create(plan, {w.cache, 1, 0, true}));
    const std::int64_t fits =
        w.preallocated ? static_cast<std::int64_t>(budget / std::max<std::uint64_t>(f16.preallocated_bytes(context), 1))
                       : demand.paged_sequences_within(budget, length);
    const std::int64_t allowed = w.preallocated ? std::max<std::int64_t>(fits, 1) : load.requests;
    QUIRE_TRY(const Held held,
              serve(bench, w, load, budget, allowed, static_cast<double>(i) / static_cast<double>(ways.size())));
    fit.points.push_back(exact_point(static_cast<double>(i), static_cast<double>(fits)));
    speed.points.push_back(median_point(static_cast<double>(i), held.tokens_per_second));
    names.push_back(w.name);
    fitting.push_back(static_cast<double>(fits));
    speeds.push_back(speed.points.back().y);
    table.rows.push_back({w.name, fmt::format("{}", fits), fmt::format("{}", held.most_running),
                          fmt::format("{:.1f}", speeds.back()), fmt::format("{}", held.preemptions)});
  }
  outcome.charts.push_back(
      {"Sequences in the same memory",
       {"cache", "", false},
       {"sequences", "", true},
       names,
       {fit},
       fmt::format("{:.0f} MiB, {} tokens each; preallocated reserves {} tokens for each. By the formula, in whole "
                   "pages: no error bars.",
                   static_cast<double>(budget) / kMiB, length, context)});
  outcome.charts.push_back(
      {"Tokens per second in the same memory",
       {"cache", "", false},
       {"generated", "tokens per second", false},
       names,
       {speed},
       fmt::format("{} requests at once; medians, bars from the 10th to the 90th percentile of the repeats.",
                   load.requests)});
  outcome.tables.push_back(std::move(table));
  outcome.find(
      fmt::format("In {:.0f} MiB, {:.0f} sequences fit where each reserves {} tokens, and {:.0f} of {} tokens in "
                  "pages: {:.1f} times. "
                  "q4 makes it {:.0f}, k2 {:.0f}.",
                  static_cast<double>(budget) / kMiB, fitting[0], context, fitting[1], length, fitting[1] / fitting[0],
                  fitting[3], fitting[4]));
  outcome.find(fmt::format(
      "Speed is another matter. With {} requests, paging makes {:.1f} instead of {:.1f} tokens a second ({:.2f} times; "
      "published: 2 to 4 on GPUs), and k2 {:.2f} times as many as paged f16 (published for KIVI: 2.35 to 3.47): what "
      "a batch gains depends on how much of a step is reading weights.",
      load.requests, speeds[1], speeds[0], speeds[1] / speeds[0], speeds[4] / speeds[1]));
  outcome.figure("fit_preallocated", fitting[0]);
  outcome.figure("fit_paged", fitting[1]);
  outcome.figure("paged_speed_ratio", speeds[1] / speeds[0]);
  outcome.figure("k2_speed_ratio", speeds[4] / speeds[1]);
  outcome.check("paging fits more sequences than preallocating", fitting[1] > fitting[0]);
  return outcome;
}

}  // namespace

const Experiment kCapacity{"capacity",
                           "Capacity: the same memory, spent differently",
                           "How many sequences fit into the same memory, and how fast does that make it?",
                           90,
                           16,
                           run};

}  // namespace quire::lab
