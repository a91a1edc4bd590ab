#include "lab/fleet.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <tuple>

#include "core/fail.h"
#include "lab/table_text.h"

namespace quire {
namespace {

struct Known {
  std::string_view name;
  Routing routing;
};
constexpr std::array<Known, 3> kKnown{
    {{"prefix", Routing::prefix}, {"round-robin", Routing::round_robin}, {"least-load", Routing::least_load}}};

struct Machine {
  TraceCache cache;
  MachineReport report;
  double busy_until_ms = 0;

  double wait(double now) const { return std::max(0.0, busy_until_ms - now); }
};

class Fleet {
 public:
  static Result<Fleet> create(const FleetOptions& options) {
    Fleet fleet(options);
    for (std::size_t i = 0; i < options.machines; ++i) {
      QUIRE_TRY(auto policy, make_eviction_policy(fleet.options_.policy));
      fleet.machines_.push_back({TraceCache(std::move(policy), options.capacity), {}, 0});
    }
    if (options.shared_capacity > 0) {
      QUIRE_TRY(auto policy, make_eviction_policy(fleet.options_.policy));
      fleet.shared_.emplace(std::move(policy), options.shared_capacity);
    }
    return fleet;
  }

  void request(std::span<const TokenId> blocks, double now) {
    const std::size_t shared = shared_ ? shared_->request(blocks) : 0;
    if (shared_) report_.stored += blocks.size() - shared;
    Machine& machine = choose(blocks, shared, now);
    const std::size_t local = machine.cache.request(blocks);
    const std::size_t fetched = std::max(shared, local) - local;
    const double wait = machine.wait(now), work = milliseconds(blocks.size() - local - fetched);
    machine.busy_until_ms = now + wait + work;
    machine.report.busy_ms += work;
    ++machine.report.requests;
    machine.report.blocks += blocks.size();
    machine.report.local_hits += local;
    machine.report.shared_hits += fetched;
    total_wait_ms_ += wait;
    report_.longest_wait_ms = std::max(report_.longest_wait_ms, wait);
  }

  FleetReport finish(std::size_t requests) {
    double busiest = 0, all = 0;
    for (const Machine& machine : machines_) {
      report_.machines.push_back(machine.report);
      report_.blocks += machine.report.blocks;
      report_.local_hits += machine.report.local_hits;
      report_.shared_hits += machine.report.shared_hits;
      report_.evictions += machine.cache.evictions();
      busiest = std::max(busiest, machine.report.busy_ms);
      all += machine.report.busy_ms;
    }
    report_.bytes_fetched = static_cast<double>(report_.shared_hits) * options_.block_bytes;
    report_.bytes_stored = static_cast<double>(report_.stored) * options_.block_bytes;
    report_.mean_wait_ms = total_wait_ms_ / static_cast<double>(requests);
    if (all > 0) report_.imbalance = busiest * static_cast<double>(machines_.size()) / all;
    return std::move(report_);
  }

 private:
  explicit Fleet(const FleetOptions& options) : options_(options) {
    if (options_.policy.empty()) options_.policy = eviction_policy_names().front();
  }

  double milliseconds(std::size_t blocks) const {
    return static_cast<double>(blocks) * static_cast<double>(kTraceBlockTokens) / options_.tokens_per_second * 1000;
  }

  Machine& choose(std::span<const TokenId> blocks, std::size_t shared, double now) {
    if (options_.routing == Routing::round_robin) return machines_[next_++ % machines_.size()];
    // Of those that are equal the one that has most of it, so that less is fetched, and then the one that had
    // least to do, or the first would get all of a calm hour.
    using Rank =
        std::tuple<double, std::size_t, double>;  // ms until done, blocks that are not there, ms of work so far
    std::size_t best = 0;
    std::optional<Rank> lowest;
    for (std::size_t i = 0; i < machines_.size(); ++i) {
      Machine& machine = machines_[i];
      Rank rank{machine.wait(now), 0, machine.report.busy_ms};
      if (options_.routing == Routing::prefix) {
        const std::size_t local = machine.cache.resident(blocks);
        std::get<0>(rank) += milliseconds(blocks.size() - std::max(shared, local));
        std::get<1>(rank) = blocks.size() - local;
      }
      if (lowest && rank >= *lowest) continue;
      lowest = rank;
      best = i;
    }
    return machines_[best];
  }

  FleetOptions options_;
  std::vector<Machine> machines_;
  std::optional<TraceCache> shared_;
  std::size_t next_ = 0;
  double total_wait_ms_ = 0;
  FleetReport report_;
};

}  // namespace

Result<Routing> parse_routing(std::string_view text) {
  std::vector<std::string> names;
  for (const Known& known : kKnown) {
    if (known.name == text) return known.routing;
    names.emplace_back(known.name);
  }
  return fail(Errc::invalid_argument, "no routing '{}'; {}", text, suggestion(text, names));
}

std::string_view name(Routing routing) { return std::ranges::find(kKnown, routing, &Known::routing)->name; }

Result<FleetReport> simulate(const Trace& trace, const FleetOptions& options) {
  if (options.machines < 1 || options.capacity < 1 || !(options.tokens_per_second > 0)) {
    return fail(Errc::invalid_argument,
                "{} machines of {} blocks that compute {} tokens a second; expected 1 or more each", options.machines,
                options.capacity, options.tokens_per_second);
  }
  const auto start = std::chrono::steady_clock::now();
  QUIRE_TRY(Fleet fleet, Fleet::create(options));
  for (const TraceRequest& request : trace.requests) {
    fleet.request(trace.blocks_of(request), static_cast<double>(request.timestamp_ms));
  }
  FleetReport report = fleet.finish(trace.requests.size());
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace quire
