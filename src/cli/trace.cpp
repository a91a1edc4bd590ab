// `quire trace`: what a cache of a given size would have held of recorded traffic.
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/common.h"
#include "cli/report.h"
#include "lab/fleet.h"
#include "lab/plan_cache.h"
#include "lab/trace_cache.h"

namespace quire::cli {
namespace {

constexpr std::int64_t kMostBlocks = std::int64_t{1} << 31;

struct TraceOptions {
  std::string file, policy, routing = "prefix", model = "llama-3-8b";
  std::int64_t capacity = 0, machines = 1, shared = 0;
  double tokens_per_second = 8000;
  bool json = false;
};

std::int64_t per_second(std::uint64_t blocks, double seconds) {
  return seconds > 0 ? static_cast<std::int64_t>(static_cast<double>(blocks) / seconds) : 0;
}

int replay_one(const Trace& trace, const TraceOptions& o) {
  const auto report = replay(trace, o.policy, static_cast<std::size_t>(o.capacity));
  if (!report.ok()) return report_error(report.error());
  const ReplayReport& r = *report;
  if (o.json) {
    const nlohmann::ordered_json out{{"requests", r.requests},
                                     {"blocks", r.blocks},
                                     {"hits", r.hits},
                                     {"hit_rate", r.hit_rate()},
                                     {"capacity", r.capacity},
                                     {"policy", r.policy},
                                     {"evictions", r.evictions},
                                     {"seconds", r.seconds},
                                     {"distinct_blocks", trace.distinct},
                                     {"blocks_per_second", per_second(r.blocks, r.seconds)}};
    std::cout << out.dump(2) << '\n';
    return kSuccess;
  }
  fmt::print("{} requests, {} blocks, of which {} differ\n", r.requests, r.blocks, trace.distinct);
  fmt::print("{} blocks under {}: {} hits, {:.4f} of those asked for; {} evictions\n", r.capacity, r.policy, r.hits,
             r.hit_rate(), r.evictions);
  fmt::print("{:.3f} s, {} blocks a second\n", r.seconds, per_second(r.blocks, r.seconds));
  return kSuccess;
}

nlohmann::ordered_json fleet_json(const FleetReport& r, const Trace& trace, const FleetOptions& o) {
  nlohmann::ordered_json out{{"requests", trace.requests.size()},
                             {"blocks", r.blocks},
                             {"hits", r.local_hits + r.shared_hits},
                             {"hit_rate", r.hit_rate()},
                             {"capacity", o.capacity},
                             {"policy", o.policy},
                             {"evictions", r.evictions},
                             {"seconds", r.seconds},
                             {"machines", o.machines},
                             {"routing", name(o.routing)},
                             {"shared_capacity", o.shared_capacity},
                             {"local_hits", r.local_hits},
                             {"shared_hits", r.shared_hits},
                             {"block_bytes", o.block_bytes},
                             {"bytes_fetched", r.bytes_fetched},
                             {"bytes_stored", r.bytes_stored},
                             {"imbalance", r.imbalance},
                             {"mean_wait_ms", r.mean_wait_ms},
                             {"longest_wait_ms", r.longest_wait_ms}};
  for (const MachineReport& m : r.machines) {
    out["per_machine"].push_back({{"requests", m.requests},
                                  {"blocks", m.blocks},
                                  {"local_hits", m.local_hits},
                                  {"shared_hits", m.shared_hits},
                                  {"busy_ms", m.busy_ms}});
  }
  return out;
}

int simulate_fleet(const Trace& trace, const TraceOptions& o) {
  FleetOptions options;
  options.machines = static_cast<std::size_t>(o.machines);
  options.capacity = static_cast<std::size_t>(o.capacity);
  options.shared_capacity = static_cast<std::size_t>(o.shared);
  options.tokens_per_second = o.tokens_per_second;
  options.policy = o.policy.empty() ? eviction_policy_names().front() : o.policy;
  const auto routing = parse_routing(o.routing);
  if (!routing.ok()) return report_error(routing.error());
  options.routing = *routing;
  const auto model = find_preset(o.model);
  if (!model.ok()) return report_error(model.error());
  const auto cache = CacheDemand::create(*model, {});
  if (!cache.ok()) return report_error(cache.error());
  options.block_bytes = cache->bytes_per_token() * static_cast<double>(kTraceBlockTokens);
  const auto report = simulate(trace, options);
  if (!report.ok()) return report_error(report.error());
  const FleetReport& r = *report;
  if (o.json) {
    std::cout << fleet_json(r, trace, options).dump(2) << '\n';
    return kSuccess;
  }
  const auto part = [&](std::uint64_t hits) { return static_cast<double>(hits) / static_cast<double>(r.blocks); };
  fmt::print("{} machines of {} blocks under {}, routing {}{}\n", o.machines, o.capacity, options.policy, o.routing,
             o.shared > 0 ? fmt::format(", {} blocks shared behind them", o.shared) : "");
  fmt::print("  hits             {:.4f} of {} blocks: {:.4f} local, {:.4f} shared\n", r.hit_rate(), r.blocks,
             part(r.local_hits), part(r.shared_hits));
  fmt::print("  moved            {} fetched, {} stored ({}, f16)\n",
             human_bytes(static_cast<std::uint64_t>(r.bytes_fetched)),
             human_bytes(static_cast<std::uint64_t>(r.bytes_stored)), o.model);
  fmt::print("  balance          the busiest works {:.2f} times the mean\n", r.imbalance);
  fmt::print("  waiting          {:.0f} ms on average, {:.0f} at worst, at {:.0f} tokens a second\n", r.mean_wait_ms,
             r.longest_wait_ms, o.tokens_per_second);
  for (std::size_t i = 0; i < r.machines.size(); ++i) {
    const MachineReport& m = r.machines[i];
    fmt::print("  machine {:<8} {} requests, {} blocks, {} computed, busy {:.0f} s\n", i + 1, m.requests, m.blocks,
               m.computed(), m.busy_ms / 1000);
  }
  return kSuccess;
}

int trace_file(const TraceOptions& o) {
  const auto checked = check_trace_policy(o.policy);
  if (!checked.ok()) return report_error(checked.error());
  if (o.machines > 1 && o.policy == "belady") {
    return report_error(
        {Errc::invalid_argument, "belady knows one machine's future, not several; choose another --policy"});
  }
  const auto text = read_text(o.file);
  if (!text.ok()) return report_error(text.error());
  const auto trace = parse_trace(*text, o.file);
  if (!trace.ok()) return report_error(trace.error());
  return o.machines > 1 || o.shared > 0 ? simulate_fleet(*trace, o) : replay_one(*trace, o);
}

}  // namespace

void add_trace(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<TraceOptions>();
  TraceOptions& o = *options;
  CLI::App* command = app.add_subcommand("trace", "Replay recorded traffic through the prefix cache, without a model");
  command->footer(
      "FILE is a Mooncake trace: a JSON object a line, with timestamp, input_length, output_length and hash_ids, one "
      "id for\n"
      "every 512 tokens. With --machines or --shared, several machines are simulated; --capacity is then each one's.");
  command->add_option("file", o.file, "Trace to replay; - for standard input")->required();
  command->add_option("--capacity", o.capacity, "Blocks that a cache holds")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, kMostBlocks));
  command->add_option(
      "--policy", o.policy,
      fmt::format("Which block leaves first: {}; else the engine's own", fmt::join(trace_policy_names(), ", ")));
  command->add_option("--machines", o.machines, "Machines to simulate")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{4096}))
      ->capture_default_str();
  command->add_option("--shared", o.shared, "Blocks in a tier behind all machines; 0 for none")
      ->check(CLI::Range(std::int64_t{0}, kMostBlocks))
      ->capture_default_str();
  command->add_option("--routing", o.routing, "prefix, round-robin or least-load")->capture_default_str();
  command->add_option("--tokens-per-second", o.tokens_per_second, "Of prompts, that a machine computes")
      ->check(CLI::Range(1.0, 1e12))
      ->capture_default_str();
  command->add_option("--model", o.model, "A name from quire plan --list: what a block takes")->capture_default_str();
  command->add_flag("--json", o.json, "Print one JSON document");
  command->callback([options, &exit_status] { exit_status = trace_file(*options); });
}

}  // namespace quire::cli
