// What the cache takes: by the formula, by the allocator's books, and by what the operating system counts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "core/fail.h"
#include "engine/cache_setup.h"
#include "engine/model_parts.h"
#include "lab/experiments/list.h"
#include "lab/plan_cache.h"
#include "lab/resident.h"

namespace quire::lab {
namespace {

constexpr double kMiB = 1 << 20;
constexpr double kBar = 0.02;  // analytic and measured must agree so well

CacheSettings in_format(const std::string& type, std::uint64_t bytes = 0) {
  CacheSettings settings;
  settings.type_k = settings.type_v = type;
  settings.bytes = bytes;
  return settings;
}

// The cache of this model, filled without computing: what it takes does not depend on what the numbers are.
class Filled {
 public:
  static Result<Filled> create(const Model& model, const CacheSettings& settings) {
    QUIRE_TRY(const CacheSetup setup, set_up_cache(settings));
    CacheOptions options = cache_options(setup, model.parts().config);
    options.share_prefixes = false;
    QUIRE_TRY(std::unique_ptr<KvCache> cache, KvCache::create(options));
    return Filled(std::move(cache));
  }

  // A sequence more. Every page is written to, as computing would.
  Result<void> add(std::int64_t tokens) {
    QUIRE_CHECK_OK(cache_->open(next_));
    QUIRE_CHECK_OK(extend(next_, tokens));
    ++next_;
    return {};
  }
  Result<void> extend(SequenceId id, std::int64_t tokens) {
    constexpr std::int64_t kStep = 512;
    for (std::int64_t done = 0; done < tokens; done += kStep) {
      const StepWant want{id, std::min(kStep, tokens - done)};
      QUIRE_TRY(const StepPlan plan, cache_->prepare({&want, 1}));
      const std::int64_t first = cache_->length(id), end = first + want.tokens;
      for (std::size_t group = 0; group < cache_->layouts().size(); ++group) {
        const KvGroupLayout& layout = cache_->layouts()[group];
        for (std::int64_t page = first / kPageTokens; page * kPageTokens < end; ++page) {
          const KvTableEntry& entry = plan.tables[0][group].pages[page];
          write_to(layout.wide, entry.wide);
          if (entry.packed != nullptr) write_to(layout.packed, entry.packed);
        }
      }
      cache_->commit(id, std::vector<TokenId>(static_cast<std::size_t>(want.tokens), 1));
    }
    return {};
  }

  KvCache& cache() { return *cache_; }

 private:
  static void write_to(const KvPageLayout& layout, std::byte* page) {
    layout.bundle.for_each_piece(layout.bytes, [&](std::int64_t at, std::int64_t, std::int64_t bytes) {
      std::memset(page + at, 0, static_cast<std::size_t>(bytes));
    });
  }
  explicit Filled(std::unique_ptr<KvCache> cache) : cache_(std::move(cache)) {}
  std::unique_ptr<KvCache> cache_;
  SequenceId next_ = 0;
};

struct Counted {
  std::int64_t context, batch;
  double analytic, allocator, system;
};

double off_by(const Counted& c) {
  return std::max(std::abs(c.allocator / c.analytic - 1), std::abs(c.system / c.analytic - 1));
}

Result<void> three_ways(Workbench& bench, const CacheDemand& demand, Outcome& outcome) {
  const auto contexts = bench.within_context({64, 128, 256, 512, 1024, 2048, 4096, 8192}, 0);
  std::vector<Counted> all;
  for (const std::int64_t batch : {1, 4}) {
    for (const std::int64_t context : contexts) {
      QUIRE_CHECK_OK(bench.at(0.3 * static_cast<double>(all.size()) / static_cast<double>(2 * contexts.size()),
                              fmt::format("{} sequences of {} tokens", batch, context)));
      const double before = resident_bytes();
      QUIRE_TRY(Filled filled, Filled::create(*bench.model(), in_format("f16")));
      for (std::int64_t i = 0; i < batch; ++i) QUIRE_CHECK_OK(filled.add(context));
      all.push_back({context, batch, static_cast<double>(demand.bytes(context, batch)),
                     static_cast<double>(filled.cache().stats().held_bytes()), resident_bytes() - before});
    }
  }
  Table table{"Bytes of the cache, in MiB (f16)",
              {"sequences", "tokens each", "by the formula", "allocator", "operating system"},
              {}};
  Chart chart{
      "Cache memory over context",
      {"context", "tokens", true},
      {"memory", "MiB", true},
      {},
      {},
      "Counted, not sampled: no error bars. The operating system's count is the growth of resident memory; it comes "
      "in slabs of 2 MiB and more."};
  for (const std::int64_t batch : {1, 4}) {
    Series formula{"formula", Style::reference, {}};
    const char* const sequences = batch == 1 ? "sequence" : "sequences";
    Series allocator{fmt::format("allocator, {} {}", batch, sequences), Style::line, {}};
    Series system{fmt::format("operating system, {} {}", batch, sequences), Style::points, {}};
    for (const Counted& c : all) {
      if (c.batch != batch) continue;
      const auto x = static_cast<double>(c.context);
      formula.points.push_back(exact_point(x, c.analytic / kMiB));
      allocator.points.push_back(exact_point(x, c.allocator / kMiB));
      if (c.system > 0) system.points.push_back(exact_point(x, c.system / kMiB));
      table.rows.push_back({fmt::format("{}", c.batch), fmt::format("{}", c.context),
                            fmt::format("{:.2f}", c.analytic / kMiB), fmt::format("{:.2f}", c.allocator / kMiB),
                            fmt::format("{:.2f}", c.system / kMiB)});
    }
    for (Series* series : {&formula, &allocator, &system}) {
      if (!series->points.empty()) chart.series.push_back(std::move(*series));
    }
  }
  outcome.charts.push_back(std::move(chart));
  outcome.tables.push_back(std::move(table));

  const Counted& largest = all.back();
  const double slope = (all[contexts.size() - 1].allocator - all[0].allocator) /
                       static_cast<double>(std::max<std::int64_t>(contexts.back() - contexts.front(), 1));
  outcome.find(
      fmt::format("Every token takes {:.0f} bytes by the formula (2 x layers x KV heads x head size x 2 bytes) and "
                  "{:.0f} by the allocator: linear in tokens and sequences, and nothing else grows.",
                  demand.bytes_per_token(), slope));
  outcome.find(fmt::format(
      "At {} x {} tokens the formula says {:.1f} MiB, the allocator {:.1f}, the operating system {:.1f}.",
      largest.batch, largest.context, largest.analytic / kMiB, largest.allocator / kMiB, largest.system / kMiB));
  outcome.figure("bytes_per_token", demand.bytes_per_token());
  outcome.figure("allocator_off", std::abs(largest.allocator / largest.analytic - 1));
  outcome.figure("system_off", std::abs(largest.system / largest.analytic - 1));
  outcome.check(fmt::format("analytic and measured within {:.0f} % at {} x {} tokens", 100 * kBar, largest.batch,
                            largest.context),
                off_by(largest) <= kBar);
  return {};
}

// Requests end where they end: lengths spread evenly over orders of magnitude.
Result<void> waste(Workbench& bench, const CacheDemand& demand, Outcome& outcome) {
  QUIRE_CHECK_OK(bench.at(0.4, "sequences of many lengths"));
  const std::int64_t context = std::min<std::int64_t>(2048, bench.info().context);
  constexpr int kSequences = 32;
  std::mt19937_64 random(7);
  QUIRE_TRY(Filled filled, Filled::create(*bench.model(), in_format("f16")));
  std::int64_t tokens = 0;
  std::vector<double> wasted;  // tokens of each that nothing lies in
  for (int i = 0; i < kSequences; ++i) {
    const double part = static_cast<double>(random() >> 11) / 9007199254740992.0;
    const auto length = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(8 * std::pow(static_cast<double>(context) / 8, part)), 8, context);
    QUIRE_CHECK_OK(filled.add(length));
    tokens += length;
    wasted.push_back(static_cast<double>(pages_for(length) * kPageTokens - length));
  }
  const double needed = static_cast<double>(tokens) * demand.bytes_per_token();
  const CacheStats stats = filled.cache().stats();
  const double held = static_cast<double>(stats.held_bytes()), reserved = static_cast<double>(stats.reserved_bytes);
  const double flat = kSequences * static_cast<double>(demand.preallocated_bytes(context));
  const auto share = [&](double bytes) { return 1 - needed / bytes; };
  outcome.tables.push_back(
      {fmt::format("{} sequences of 8 to {} tokens, {} on average", kSequences, context, tokens / kSequences),
       {"", "MiB", "wasted"},
       {{"needed", fmt::format("{:.1f}", needed / kMiB), "-"},
        {"in pages of 32 tokens", fmt::format("{:.1f}", held / kMiB), fmt::format("{:.1f} %", 100 * share(held))},
        {"taken from the system", fmt::format("{:.1f}", reserved / kMiB),
         fmt::format("{:.1f} %", 100 * share(reserved))},
        {fmt::format("preallocated, {} tokens each", context), fmt::format("{:.1f}", flat / kMiB),
         fmt::format("{:.1f} %", 100 * share(flat))}}});
  const Point page = median_point(0, wasted);
  outcome.find(
      fmt::format("{} sequences of 8 to {} tokens waste {:.1f} % in pages (at the median {:.0f} tokens of each "
                  "one's last page) and {:.1f} % where each reserves the whole context: {:.1f} times the memory.",
                  kSequences, context, 100 * share(held), page.y, 100 * share(flat), flat / held));
  outcome.figure("paged_waste", share(held));
  outcome.figure("preallocated_waste", share(flat));
  outcome.check("pages waste less than preallocating", held < flat);
  return {};
}

struct Wall {
  std::int64_t tokens = 0;  // of the last sequence
  double held = 0, reserved = 0, system = 0;
};

// Longer and longer, all sequences together, until the budget says no.
Result<Wall> wall(const Model& model, const std::string& type, std::uint64_t budget, std::int64_t batch) {
  const double before = resident_bytes();
  QUIRE_TRY(Filled filled, Filled::create(model, in_format(type, budget)));
  for (std::int64_t i = 0; i < batch; ++i) {
    if (const auto added = filled.add(kPageTokens); !added.ok()) return Wall{};
  }
  while (true) {
    for (std::int64_t i = 0; i < batch; ++i) {
      const auto extended = filled.extend(static_cast<SequenceId>(i), kPageTokens);
      if (extended.ok()) continue;
      if (extended.error().code != Errc::out_of_memory) return extended.error();
      const CacheStats stats = filled.cache().stats();
      return Wall{filled.cache().length(static_cast<SequenceId>(batch - 1)), static_cast<double>(stats.held_bytes()),
                  static_cast<double>(stats.reserved_bytes), resident_bytes() - before};
    }
  }
}

Result<void> walls(Workbench& bench, const PlanModel& plan, Outcome& outcome) {
  // As much as the model's whole context takes, twice.
  QUIRE_TRY(const CacheDemand f16, CacheDemand::create(plan, {in_format("f16"), 1, 0, true}));
  const std::int64_t context = std::min<std::int64_t>(bench.info().context, 2048);
  const std::uint64_t budget = std::max<std::uint64_t>(2 * f16.bytes(context, 1), std::uint64_t{16} << 20);
  const std::vector<std::string> types = {"f16", "q8", "q4", "k2"};
  const std::vector<std::int64_t> batches = {1, 2, 4, 8};
  Chart chart{fmt::format("The context wall under {:.0f} MiB", static_cast<double>(budget) / kMiB),
              {"sequences", "", true},
              {"tokens each can have", "", true},
              {},
              {},
              "Points: the cache was filled until its budget refused. Dashed: by the formula. Counted, no error bars."};
  double furthest = 0;
  std::int64_t f16_wall = 0, q4_wall = 0;
  for (std::size_t t = 0; t < types.size(); ++t) {
    QUIRE_TRY(const CacheDemand demand, CacheDemand::create(plan, {in_format(types[t]), 1, 0, true}));
    Series measured{types[t], Style::line, {}}, formula{"formula", Style::reference, {}};
    for (const std::int64_t batch : batches) {
      QUIRE_CHECK_OK(bench.at(0.5 + 0.4 * static_cast<double>(t) / static_cast<double>(types.size()),
                              fmt::format("the wall of {} with {} sequences", types[t], batch)));
      QUIRE_TRY(const Wall at, wall(*bench.model(), types[t], budget, batch));
      const std::int64_t reached = at.tokens;
      const std::int64_t foretold = demand.context_within(budget, batch);
      measured.points.push_back(exact_point(static_cast<double>(batch), static_cast<double>(reached)));
      formula.points.push_back(exact_point(static_cast<double>(batch), static_cast<double>(foretold)));
      furthest = std::max(furthest, std::abs(static_cast<double>(reached) / static_cast<double>(foretold) - 1));
      if (batch == 1 && types[t] == "f16") f16_wall = reached;
      if (batch == 1 && types[t] == "q4") q4_wall = reached;
    }
    chart.series.push_back(std::move(measured));
    chart.series.push_back(std::move(formula));
  }
  outcome.charts.push_back(std::move(chart));
  outcome.find(
      fmt::format("Under {:.0f} MiB one sequence ends at {} tokens in f16 and at {} in q4; twice the sequences, half "
                  "the tokens. The weights do not grow: context is a budget of memory.",
                  static_cast<double>(budget) / kMiB, f16_wall, q4_wall));
  outcome.figure("wall_f16", static_cast<double>(f16_wall));
  outcome.figure("wall_furthest_from_formula", furthest);
  return {};
}

// Every format, filled until a budget refuses: what is held then, against what was foretold and what was allowed.
Result<void> small_budget(Workbench& bench, const PlanModel& plan, Outcome& outcome) {
  constexpr std::uint64_t kBudget = std::uint64_t{64} << 20;
  constexpr double kAllowed = kBudget;
  Table table{"One sequence under a budget of 64 MiB, in MiB",
              {"format", "tokens", "by the formula", "allocator", "taken from the system", "operating system"},
              {}};
  double furthest = 0, most = 0;
  const auto formats = kv_formats();
  for (std::size_t i = 0; i < formats.size(); ++i) {
    const std::string type(formats[i].name);
    QUIRE_CHECK_OK(bench.at(0.9 + 0.1 * static_cast<double>(i) / static_cast<double>(formats.size()),
                            fmt::format("{} under 64 MiB", type)));
    QUIRE_TRY(const CacheDemand demand, CacheDemand::create(plan, {in_format(type), 1, 0, true}));
    QUIRE_TRY(const Wall at, wall(*bench.model(), type, kBudget, 1));
    const auto foretold = static_cast<double>(demand.paged_bytes(at.tokens, 1));
    const auto mib = [](double bytes) { return fmt::format("{:.2f}", bytes / kMiB); };
    table.rows.push_back(
        {type, fmt::format("{}", at.tokens), mib(foretold), mib(at.held), mib(at.reserved), mib(at.system)});
    if (at.tokens > 0) furthest = std::max(furthest, std::abs(at.held / foretold - 1));
    most = std::max(most, at.reserved);
  }
  outcome.tables.push_back(std::move(table));
  outcome.find(
      fmt::format("Under a budget of 64 MiB no format took more than {:.2f} MiB, and what was held was never "
                  "further than {:.2f} % from the formula.",
                  most / kMiB, 100 * furthest));
  outcome.figure("budget_most_taken", most);
  outcome.figure("budget_furthest_from_formula", furthest);
  outcome.check("a budget of 64 MiB is never exceeded", most <= kAllowed);
  outcome.check(fmt::format("every format within {:.0f} % of the formula", 100 * kBar), furthest <= kBar);
  return {};
}

Result<Outcome> run(Workbench& bench) {
  QUIRE_TRY(const PlanModel plan, model_from_file(bench.info().path));
  // Local layers keep what their window sees.
  QUIRE_TRY(const CacheDemand demand, CacheDemand::create(plan, {in_format("f16"), 1, 0, true}));
  Outcome outcome;
  QUIRE_CHECK_OK(three_ways(bench, demand, outcome));
  QUIRE_CHECK_OK(waste(bench, demand, outcome));
  QUIRE_CHECK_OK(walls(bench, plan, outcome));
  QUIRE_CHECK_OK(small_budget(bench, plan, outcome));
  return outcome;
}

}  // namespace

const Experiment kMemory{"memory",
                         "Memory: formula, allocator, operating system",
                         "What does the cache take, how much of it is wasted, and where is the wall?",
                         2,
                         2,
                         run};

}  // namespace quire::lab
