// Many requests that begin alike: what it saves to compute and keep the beginning once.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>

#include "core/fail.h"
#include "engine/cache_setup.h"
#include "engine/model_parts.h"
#include "lab/experiments/list.h"

namespace quire::lab {
namespace {

constexpr double kMiB = 1 << 20;

struct Served {
  std::vector<double> ms;       // of each repeat
  double computed = 0;          // tokens
  double most_bytes = 0;        // that sequences held at once
  std::vector<Tokens> answers;  // of the last repeat
};

Result<Served> serve(Engine& engine, const std::vector<Request>& requests, int repeats) {
  Served served;
  for (int i = 0; i < repeats; ++i) {
    engine.forget_cached();
    const std::uint64_t before = engine.stats().computed_tokens;
    const auto start = Clock::now();
    std::vector<Stream> streams;
    for (const Request& request : requests) {
      QUIRE_TRY(Stream stream, engine.submit(request));
      streams.push_back(std::move(stream));
    }
    for (Stream& stream : streams) {
      (void)stream.next();
      served.most_bytes = std::max(served.most_bytes, static_cast<double>(engine.stats().bytes_used));
    }
    served.answers.clear();
    for (Stream& stream : streams) {
      QUIRE_TRY(Completion completion, stream.wait());
      served.answers.push_back(std::move(completion.choices[0].tokens));
    }
    served.ms.push_back(milliseconds_since(start));
    served.computed = static_cast<double>(engine.stats().computed_tokens - before);
  }
  return served;
}

Result<void> one_prefix(Workbench& bench, Outcome& outcome) {
  const std::int64_t context = bench.info().context;
  const std::int64_t prefix = std::min<std::int64_t>(bench.choose(512, 256), context / 2) / 32 * 32;
  const std::int64_t suffix = 8, generated = 16;
  const auto counts = bench.choose<std::vector<int>>({1, 2, 4, 8, 16}, {1, 4, 8});
  EngineOptions apart;
  apart.share_prefixes = false;
  QUIRE_TRY(Engine sharing, bench.start({}));
  QUIRE_TRY(Engine separate, bench.start(apart));
  std::array<Series, 2> time{Series{"shared", Style::line, {}}, Series{"each its own", Style::line, {}}};
  std::array<Series, 2> bytes = time;
  bool same = true;
  std::array<Served, 2> last;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    std::vector<Request> requests;
    for (int i = 0; i < counts[c]; ++i) {
      Tokens tokens = bench.prompt(0, prefix);
      const Tokens own = bench.prompt(prefix + 100 * (i + 1), suffix + 1);
      tokens.insert(tokens.end(), own.begin() + 1, own.end());
      tokens.back() = static_cast<TokenId>(i + 10);  // no two alike
      requests.push_back(greedy_request(std::move(tokens), generated));
    }
    for (std::size_t e = 0; e < 2; ++e) {
      QUIRE_CHECK_OK(bench.at(0.85 * static_cast<double>(2 * c + e) / static_cast<double>(2 * counts.size()),
                              fmt::format("{} requests, {}", counts[c], time[e].name)));
      QUIRE_TRY(last[e], serve(e == 0 ? sharing : separate, requests, bench.choose(3, 2)));
      time[e].points.push_back(median_point(counts[c], last[e].ms));
      bytes[e].points.push_back(exact_point(counts[c], last[e].most_bytes / kMiB));
    }
    same = same && last[0].answers == last[1].answers;
  }
  const Axis requests{"requests", "", true};
  outcome.charts.push_back(
      {"Until all are answered",
       requests,
       {"time", "ms", true},
       {},
       {time[0], time[1]},
       fmt::format("All begin with the same {} tokens, {} of each one's own follow, and {} are generated. "
                   "Medians, bars from the 10th to the 90th percentile.",
                   prefix, suffix, generated)});
  outcome.charts.push_back({"Memory that their tokens hold",
                            requests,
                            {"memory", "MiB", false},
                            {},
                            {bytes[0], bytes[1]},
                            "The most while they were answered, counted by the allocator: no error bars."});
  const int n = counts.back();
  const double faster = time[1].points.back().y / time[0].points.back().y;
  outcome.find(fmt::format(
      "{} requests on one prefix of {} tokens take {:.0f} ms where it is computed once and {:.0f} ms where each "
      "computes its own: {:.1f} times. They hold {:.1f} instead of {:.1f} MiB, and {:.0f} instead of {:.0f} "
      "tokens go through the model.",
      n, prefix, time[0].points.back().y, time[1].points.back().y, faster, bytes[0].points.back().y,
      bytes[1].points.back().y, last[0].computed, last[1].computed));
  outcome.figure("times_as_fast", faster);
  outcome.figure("memory_ratio", bytes[1].points.back().y / bytes[0].points.back().y);
  outcome.figure("computed_shared", last[0].computed);
  outcome.figure("computed_separate", last[1].computed);
  outcome.check("sharing changes no answer", same);
  outcome.check("the prefix is computed once",
                last[0].computed <= static_cast<double>(prefix + n * (suffix + generated)));
  return {};
}

Result<void> forks(Workbench& bench, Outcome& outcome) {
  QUIRE_CHECK_OK(bench.at(0.87, "forks"));
  const std::int64_t length = std::min<std::int64_t>(400, bench.info().context / 2);
  QUIRE_TRY(Session trunk, bench.open());
  QUIRE_CHECK_OK(trunk.prefill(bench.prompt(0, length)));
  const auto alone = static_cast<double>(trunk.cache().bytes);
  constexpr int kForks = 8;
  std::vector<Session> branches;
  for (int i = 0; i < kForks; ++i) {
    QUIRE_TRY(Session branch, trunk.fork());
    branches.push_back(std::move(branch));
  }
  const auto forked = static_cast<double>(trunk.cache().bytes);
  for (int i = 0; i < kForks; ++i)
    QUIRE_CHECK_OK(branches[static_cast<std::size_t>(i)].decode(static_cast<TokenId>(i + 10)));
  const auto grown = static_cast<double>(trunk.cache().bytes);
  outcome.tables.push_back({fmt::format("Copy-on-write: a sequence of {} tokens and {} forks of it", length, kForks),
                            {"", "MiB"},
                            {{"the sequence", fmt::format("{:.2f}", alone / kMiB)},
                             {"with its forks", fmt::format("{:.2f}", forked / kMiB)},
                             {"after each went on by a token", fmt::format("{:.2f}", grown / kMiB)},
                             {"as copies", fmt::format("{:.2f}", (kForks + 1) * alone / kMiB)}}});
  outcome.find(fmt::format(
      "{} forks of {} tokens take nothing until they go on; then each copies its last page of 32 tokens: {:.2f} "
      "MiB in all, where copies would take {:.2f}.",
      kForks, length, grown / kMiB, (kForks + 1) * alone / kMiB));
  outcome.check("a fork takes nothing until it goes on", forked == alone);
  return {};
}

// Sequences of all lengths come and go: what lies idle in the last pages, and in slabs that are not full.
Result<void> fragmentation(Workbench& bench, Outcome& outcome) {
  QUIRE_CHECK_OK(bench.at(0.93, "fragmentation"));
  QUIRE_TRY(const CacheSetup setup, set_up_cache({}));
  CacheOptions options = cache_options(setup, bench.model()->parts().config);
  options.share_prefixes = false;
  QUIRE_TRY(const std::unique_ptr<KvCache> cache, KvCache::create(options));
  std::mt19937_64 random(3);
  constexpr int kSequences = 64, kRounds = 40;
  const std::int64_t most = std::min<std::int64_t>(1024, bench.info().context);
  std::vector<double> last_pages, slabs;
  for (int round = 0; round < kRounds; ++round) {
    for (SequenceId id = 0; id < kSequences; ++id) {
      if (random() % 3 != 0 && round > 0) continue;
      if (cache->contains(id)) cache->release(id);
      QUIRE_CHECK_OK(cache->open(id));
      const StepWant want{id, static_cast<std::int64_t>(1 + random() % static_cast<std::uint64_t>(most))};
      QUIRE_CHECK_OK(cache->prepare({&want, 1}));
      cache->commit(id, Tokens(static_cast<std::size_t>(want.tokens), 1));
    }
    const CacheStats stats = cache->stats();
    const double tokens = static_cast<double>(stats.tokens * static_cast<std::int64_t>(cache->bytes_per_token()));
    const auto held = static_cast<double>(stats.held_bytes());
    last_pages.push_back(100 * (1 - tokens / held));
    slabs.push_back(100 * (1 - held / static_cast<double>(stats.reserved_bytes)));
  }
  const Point inside = median_point(0, last_pages), outside = median_point(0, slabs);
  outcome.find(fmt::format(
      "{} sequences of 1 to {} tokens that come and go leave {:.1f} % of what they hold idle in their last pages "
      "({:.1f} to {:.1f}), and {:.1f} % of what was taken from the system in pages nobody holds ({:.1f} to {:.1f}).",
      kSequences, most, inside.y, inside.low, inside.high, outside.y, outside.low, outside.high));
  outcome.figure("idle_in_last_pages_percent", inside.y);
  outcome.figure("idle_in_slabs_percent", outside.y);
  return {};
}

Result<Outcome> run(Workbench& bench) {
  Outcome outcome;
  QUIRE_CHECK_OK(one_prefix(bench, outcome));
  QUIRE_CHECK_OK(forks(bench, outcome));
  QUIRE_CHECK_OK(fragmentation(bench, outcome));
  return outcome;
}

}  // namespace

const Experiment kSharing{
    "sharing", "Sharing a prefix", "What does it save when requests that begin alike share their beginning?", 35, 8,
    run};

}  // namespace quire::lab
