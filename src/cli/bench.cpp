// `quire bench`
#include "lab/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/common.h"
#include "core/cpu_features.h"
#include "core/thread_pool.h"
#include "kernels/machine_speed.h"
#include "kernels/ops.h"
#include "lab/machine_info.h"

namespace quire::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string model, kernels = "auto", compare;
  std::vector<std::int64_t> prompts{512}, depths{0}, batches{1};
  std::vector<int> threads{0};
  std::vector<std::string> type_k{"f16"}, type_v{}, policies{"full"};
  std::int64_t generated = 64, shared_prefix = 0, chunk = 512;
  std::uint64_t cache_bytes = 0;
  int repeats = 5;
  bool json = false;
};

// Everything that is asked for, each with each; keys and values go in pairs.
Result<std::vector<BenchSetting>> settings(const Options& o) {
  const std::vector<std::string>& values = o.type_v.empty() ? o.type_k : o.type_v;
  if (o.type_k.size() != values.size() && o.type_k.size() != 1 && values.size() != 1) {
    return Error{Errc::invalid_argument,
                 fmt::format("{} types of keys and {} of values; expected as many of each, or one of either",
                             o.type_k.size(), values.size())};
  }
  std::vector<BenchSetting> all;
  for (const int threads : o.threads) {
    for (const std::string& policy : o.policies) {
      for (std::size_t i = 0; i < std::max(o.type_k.size(), values.size()); ++i) {
        BenchSetting setting;
        setting.threads = threads;
        setting.kernels = o.kernels;
        setting.prefill_chunk = o.chunk;
        setting.cache.policy = policy;
        setting.cache.bytes = o.cache_bytes;
        setting.cache.type_k = o.type_k[std::min(i, o.type_k.size() - 1)];
        setting.cache.type_v = values[std::min(i, values.size() - 1)];
        all.push_back(setting);
      }
    }
  }
  return all;
}

std::vector<BenchWork> works(const Options& o) {
  std::vector<BenchWork> all;
  for (const std::int64_t depth : o.depths) {
    for (const std::int64_t prompt : o.prompts) {
      if (prompt > 0) all.push_back({BenchWork::Kind::prefill, prompt, depth, 1, 0});
    }
    for (const std::int64_t batch : o.batches) {
      if (o.generated > 0) {
        all.push_back({BenchWork::Kind::decode, o.generated, std::max(depth, o.shared_prefix), batch,
                       batch > 1 ? o.shared_prefix : 0});
      }
    }
  }
  return all;
}

const char* kind_name(BenchWork::Kind kind) { return kind == BenchWork::Kind::prefill ? "prefill" : "decode"; }

double roofline_fraction(const BenchResult& r, const MachineSpeed& machine) {
  const double seconds = r.median_ms() * 1e-3;
  if (seconds <= 0) return 0;
  return r.work.kind == BenchWork::Kind::prefill ? r.operations / seconds / (machine.int8_gops * 1e9)
                                                 : r.read_bytes / seconds / (machine.read_gbps * 1e9);
}

Json to_json(const BenchResult& r, const BenchSetting& setting, const MachineSpeed& machine) {
  return {{"kind", kind_name(r.work.kind)},
          {"n", r.work.tokens},
          {"depth", r.work.depth},
          {"batch", r.work.batch},
          {"shared_prefix", r.work.shared_prefix},
          {"type_k", setting.cache.type_k},
          {"type_v", setting.cache.type_v},
          {"policy", setting.cache.policy},
          {"threads", r.threads},
          {"repeats", r.ms.size()},
          {"median_ms", r.median_ms()},
          {"min_ms", r.min_ms()},
          {"tokens_per_second", r.tokens_per_second()},
          {"bytes_per_token", r.bytes_per_token},
          {"roofline_fraction", roofline_fraction(r, machine)}};
}

// What makes two runs the same work.
bool same_work(const Json& a, const Json& b) {
  for (const char* key : {"kind", "n", "depth", "batch", "shared_prefix", "type_k", "type_v", "policy", "threads"}) {
    if (a.value(key, Json{}) != b.value(key, Json{})) return false;
  }
  return true;
}

Result<Json> read_earlier(const std::string& path) {
  if (path.empty()) return Json{};
  std::ifstream file(path);
  if (!file) return Error{Errc::not_found, fmt::format("{}: cannot open", path)};
  Json earlier = Json::parse(file, nullptr, false);
  if (!earlier.is_object() || !earlier.contains("runs") || !earlier["runs"].is_array()) {
    return Error{Errc::bad_file, fmt::format("{}: expected what `quire bench --json` prints", path)};
  }
  return earlier;
}

// How many times as fast as before; 0 where it was not measured before.
double ratio_to(const Json& earlier, const Json& run) {
  if (!earlier.is_object()) return 0;
  for (const Json& before : earlier["runs"]) {
    if (!before.is_object() || !same_work(before, run)) continue;
    const Json speed = before.value("tokens_per_second", Json{});
    if (speed.is_number() && speed.get<double>() > 0)
      return run["tokens_per_second"].get<double>() / speed.get<double>();
  }
  return 0;
}

void print_row(const Json& run, double ratio, bool compared) {
  const bool prefill = run["kind"] == "prefill";
  const auto shared = run["shared_prefix"].get<std::int64_t>();
  fmt::print(
      "{:<8}{:>6}{:>8}{:>7}{:>8}  {:<10}{:<10}{:>4}{:>12.2f}{:>12.1f}{:>8.0f} %{}", run["kind"].get<std::string>(),
      run["n"].get<std::int64_t>(), run["depth"].get<std::int64_t>(), run["batch"].get<std::int64_t>(), shared,
      run["type_k"].get<std::string>() + "/" + run["type_v"].get<std::string>(), run["policy"].get<std::string>(),
      run["threads"].get<int>(), run["median_ms"].get<double>(), run["tokens_per_second"].get<double>(),
      100 * run["roofline_fraction"].get<double>(), prefill ? " int8" : " bus ");
  if (compared) fmt::print("{}", ratio > 0 ? fmt::format("{:>9.2f}", ratio) : "        -");
  fmt::print("\n");
  std::fflush(stdout);
}

int measure(const Options& o) {
  const auto all = settings(o);
  if (!all.ok()) return report_error(all.error());
  const auto ops = find_ops(o.kernels);
  if (!ops.ok()) return report_error(ops.error());
  const auto earlier = read_earlier(o.compare);
  if (!earlier.ok()) return report_error(earlier.error());
  ModelOptions named;
  named.path = o.model;
  const auto model = named.load();
  if (!model.ok()) return report_error(model.error());

  const bool progress = is_terminal(STDERR_FILENO);
  BenchOptions options;
  options.repeats = o.repeats;
  options.cancel = &interrupted();
  if (progress) options.on_progress = [](std::string_view what) { say(fmt::format("\r\033[K{}", what)); };
  catch_interrupts();

  ThreadPool pool(o.threads.front() > 0 ? o.threads.front() : usable_cpus());
  const MachineSpeed machine = measure_machine(pool);
  Json out{{"machine",
            {{"cpu", cpu_name()},
             {"threads", pool.size()},
             {"isa", std::string(name(best_isa()))},
             {"kernels", std::string((*ops)->name)},
             {"read_gbps", machine.read_gbps},
             {"int8_gops", machine.int8_gops}}},
           {"model", (*model)->info().name},
           {"weights_bytes", (*model)->info().weights_bytes},
           {"runs", Json::array()}};
  if (!o.json) {
    fmt::print("{}, {} threads, {} kernels: reads {:.1f} GB/s, {:.0f} GOP/s in int8\n{}, {:.1f} MB of weights\n\n",
               cpu_name(), pool.size(), (*ops)->name, machine.read_gbps, machine.int8_gops, (*model)->info().name,
               static_cast<double>((*model)->info().weights_bytes) * 1e-6);
    fmt::print("{:<8}{:>6}{:>8}{:>7}{:>8}  {:<10}{:<10}{:>4}{:>12}{:>12}{:>10}     {}\n", "kind", "n", "depth", "batch",
               "shared", "k/v", "policy", "thr", "median ms", "tokens/s", "of bound", o.compare.empty() ? "" : "ratio");
  }
  for (const BenchSetting& setting : *all) {
    auto bench = Bench::create(*model, setting);
    if (!bench.ok()) return report_error(bench.error());
    for (const BenchWork& work : works(o)) {
      const auto result = bench->run(work, options);
      if (progress) say("\r\033[K");
      if (!result.ok()) {
        return result.error().code == Errc::cancelled ? kInterrupted : report_error(result.error());
      }
      const Json run = to_json(*result, setting, machine);
      const double ratio = ratio_to(*earlier, run);
      if (!o.json) print_row(run, ratio, !o.compare.empty());
      out["runs"].push_back(run);
      if (ratio > 0) out["runs"].back()["ratio"] = ratio;
    }
  }
  if (o.json) std::cout << out.dump(2) << '\n';
  return kSuccess;
}

}  // namespace

void add_bench(CLI::App& app, int& exit_status) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("bench", "Measure speed: prompts and answers at depths, batches, formats");
  command->footer(
      "Lists are separated by commas. Each prompt length is measured at each depth, and -n tokens are generated at "
      "each\n"
      "depth by each batch. 'of bound' compares with what this machine reaches at best, measured just before: 8-bit\n"
      "products for prompts, reading weights, keys and values for answers.");
  const auto list = [&](const char* names, auto& values, const char* help) {
    return command->add_option(names, values, help)
        ->delimiter(',')
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->capture_default_str();
  };
  command->add_option("-m,--model", o->model, "Model file (GGUF); else $QUIRE_MODEL, else what lies in models/");
  list("-p,--n-prompt", o->prompts, "Tokens of prompts; 0 for none")->check(CLI::NonNegativeNumber);
  command->add_option("-n,--n-gen", o->generated, "Tokens to generate; 0 for none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  list("-d,--n-depth", o->depths, "Tokens in the cache before")->check(CLI::NonNegativeNumber);
  list("-b,--batch", o->batches, "Sequences that generate together")->check(CLI::PositiveNumber);
  command->add_option("--shared-prefix", o->shared_prefix, "Tokens of the depth that a batch has in common")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  list("-t,--threads", o->threads, "Threads; 0 for all this process may use")->check(CLI::Range(0, 1024));
  list("--cache-type-k", o->type_k, "-ctk: how keys are kept");
  list("--cache-type-v", o->type_v, "-ctv: how values are kept; as keys where none is named");
  list("--cache-policy", o->policies, "Which tokens are kept");
  command->add_option("--cache-bytes", o->cache_bytes, "Most the cache may take; 0 for what the machine has")
      ->transform(CLI::AsSizeValue(false));
  command->add_option("--ubatch-size", o->chunk, "-ub: tokens of a prompt computed at once")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("-r,--repetitions", o->repeats, "Times everything is measured; medians are shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--kernels", o->kernels, kKernelsHelp)->capture_default_str();
  command->add_option("--compare", o->compare, "File with an earlier --json: shows how many times as fast it is now");
  command->add_flag("--json", o->json, "Print one JSON document");
  command->callback([o, &exit_status] { exit_status = measure(*o); });
}

}  // namespace quire::cli
