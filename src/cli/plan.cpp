// `quire plan`: what a cache costs and what fits, before anything is bought or loaded.
#include "lab/plan.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <iostream>

#include "cli/common.h"
#include "cli/plan_report.h"
#include "cli/report.h"
#include "lab/table_text.h"

namespace quire::cli {
namespace {

struct PlanOptions {
  std::string model, memory, hardware_file, device = "h100", parameters;
  PlanModel numbers;  // what is not 0 takes the place of the model's own
  PlanRequest request;
  double weight_bits = 0, shared_prefix_percent = 0;
  bool json = false, list = false;
};

// CLI11 asks it before it converts: messages say what was expected.
CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  const auto check = [=](std::string& text) -> std::string {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc{} && end == text.data() + text.size() && value >= least && value <= most) return {};
    return fmt::format("'{}' will not do; expected a whole number from {} to {}, in digits", text, least, most);
  };
  return CLI::Validator(check, "N");
}

CLI::Validator real_number(double least, double most) {
  const auto check = [=](std::string& text) -> std::string {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc{} && end == text.data() + text.size() && value >= least && value <= most) return {};
    return fmt::format("'{}' will not do; expected a number from {} to {}", text, least, most);
  };
  return CLI::Validator(check, "X");
}

bool looks_like_a_file(const std::string& name) {
  std::error_code error;
  return name.ends_with(".gguf") || name.find('/') != std::string::npos ||
         std::filesystem::is_regular_file(name, error);
}

Result<PlanModel> named_model(const PlanOptions& o) {
  if (!o.model.empty()) return looks_like_a_file(o.model) ? model_from_file(o.model) : find_preset(o.model);
  PlanModel model;
  model.name = "a model of these numbers";
  const PlanModel& n = o.numbers;
  if (n.layers == 0 || n.head_dim == 0 || (n.kv_heads == 0 && n.q_heads == 0 && n.latent == 0)) {
    return Error{Errc::invalid_argument,
                 "no model: name one (quire plan --list shows them), give a GGUF file, or --layers, --kv-heads and "
                 "--head-dim"};
  }
  model.q_heads = std::max<std::int64_t>({n.q_heads, n.kv_heads, 1});
  model.kv_heads = n.latent > 0 ? 1 : model.q_heads;
  return model;
}

// "70e9" or "70B".
Result<std::uint64_t> parse_parameters(std::string text) {
  const std::string given = text;
  double factor = 1;
  if (text.ends_with('B') || text.ends_with('b')) factor = 1e9;
  if (text.ends_with('M') || text.ends_with('m')) factor = 1e6;
  if (factor > 1) text.pop_back();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value * factor >= 1 && value * factor <= 1e15)) {
    return Error{Errc::invalid_argument,
                 fmt::format("--parameters '{}' will not do; expected a number such as 70B or 135M", given)};
  }
  return static_cast<std::uint64_t>(value * factor);
}

Result<PlanModel> chosen_model(const PlanOptions& o) {
  auto model = named_model(o);
  if (!model.ok()) return model;
  PlanModel& m = *model;
  const auto override = [&](std::int64_t PlanModel::*member) {
    if (o.numbers.*member > 0) m.*member = o.numbers.*member;
  };
  for (const auto member : {&PlanModel::layers, &PlanModel::q_heads, &PlanModel::kv_heads, &PlanModel::head_dim,
                            &PlanModel::latent, &PlanModel::rope, &PlanModel::window, &PlanModel::window_layers}) {
    override(member);
  }
  if (m.window > 0 && m.window_layers == 0) m.window_layers = m.layers;
  if (!o.parameters.empty()) {
    const auto parameters = parse_parameters(o.parameters);
    if (!parameters.ok()) return parameters.error();
    m.parameters = m.active = *parameters;
    m.experts = m.experts_used = 0;
    m.weights_bytes = 0;
  }
  if (m.weights_bytes == 0 || o.weight_bits > 0) {
    const double bits = o.weight_bits > 0 ? o.weight_bits : 16;
    m.weights_bytes = static_cast<std::uint64_t>(static_cast<double>(m.parameters) * bits / 8);
  }
  return model;
}

Result<PlanRequest> request_of(const PlanOptions& o) {
  PlanRequest request = o.request;
  auto model = chosen_model(o);
  if (!model.ok()) return model.error();
  request.model = std::move(*model);
  request.cache.shared_prefix = o.shared_prefix_percent / 100;
  if (!o.memory.empty()) {
    const auto memory = parse_size(o.memory);
    if (!memory.ok()) return Error{memory.error().code, "--memory " + memory.error().message};
    request.memory = *memory;
  }
  request.hardware = builtin_hardware();
  if (!o.hardware_file.empty()) {
    const auto text = read_text(o.hardware_file);
    if (!text.ok()) return text.error();
    auto parsed = parse_hardware(*text, o.hardware_file);
    if (!parsed.ok()) return parsed.error();
    request.hardware = std::move(*parsed);
  }
  auto device = find_hardware(request.hardware, o.device);
  if (!device.ok()) return device.error();
  request.machine.device = std::move(*device);
  return request;
}

void print_lists() {
  fmt::print("models\n");
  for (const PlanModel& m : plan_presets()) {
    fmt::print("  {:<16} {:>7.2f} billion parameters, {}, trained for {} tokens\n", m.name,
               static_cast<double>(m.parameters) / 1e9, m.attention(), m.context);
  }
  fmt::print("hardware\n");
  for (const Hardware& h : builtin_hardware()) {
    fmt::print("  {:<16} {:>9}  {:>5.0f} GB/s {:>7.4g} TFLOP/s {:>6.2f} $/h  {}\n", h.name,
               human_bytes(static_cast<std::uint64_t>(h.memory_bytes)), h.read_per_second / 1e9,
               h.operations_per_second / 1e12, h.dollars_per_hour, h.description);
  }
}

int plan(const PlanOptions& o) {
  if (o.list) {
    print_lists();
    return kSuccess;
  }
  auto request = request_of(o);
  if (!request.ok()) return report_error(request.error());
  const auto made = make_plan(std::move(*request));
  if (!made.ok()) return report_error(made.error());
  std::cout << (o.json ? plan_json(*made).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                       : plan_text(*made));
  return kSuccess;
}

}  // namespace

void add_plan(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<PlanOptions>();
  PlanOptions& o = *options;
  CLI::App* command = app.add_subcommand("plan", "What a model's cache costs, what fits, how fast it could go");
  command->footer(
      "Sizes: 80G and 80GiB are 2^30, 80GB is 10^9. Memory is what the cache may take, the weights not counted.\n"
      "Speeds are rooflines: no kernel is faster, most are slower. See --list for names.");
  command->add_option("model,-m,--model", o.model, "A name from --list, or a model file (GGUF)");
  command->add_flag("--list", o.list, "List the models and the hardware that are known");
  const auto whole = [&](const char* name, std::int64_t& value, std::int64_t most, const char* help) {
    command->add_option(name, value, help)->check(whole_number(1, most));
  };
  whole("-c,--ctx-size", o.request.context, kMostPlannedTokens,
        "Tokens in each sequence; else what it was trained for");
  whole("-n,--sequences", o.request.sequences, kMostPlannedSequences, "Sequences at once; 1");
  command->add_option("--memory", o.memory, "For the cache, such as 80G or 400GiB; else what --device has left");
  whole("--mean-tokens", o.request.mean_tokens, kMostPlannedTokens, "Tokens that sequences reach; else half of -c");
  whole("--generate", o.request.generate, kMostPlannedTokens,
        "Of -c, tokens that are generated: with and without cache");
  command->add_option("--cache-type-k", o.request.cache.settings.type_k, "-ctk: how keys are kept")
      ->capture_default_str();
  command->add_option("--cache-type-v", o.request.cache.settings.type_v, "-ctv: how values are kept")
      ->capture_default_str();
  command->add_option("--cache-policy", o.request.cache.settings.policy, "Which tokens are kept")
      ->capture_default_str();
  whole("--share-layers", o.request.cache.share_layers, 4096, "Layers that share one cache (cross-layer attention); 1");
  command
      ->add_option("--shared-prefix", o.shared_prefix_percent, "Percent of every sequence that all have in common; 0")
      ->check(real_number(0, 100));
  command->add_option("--device", o.device, "Hardware to estimate for")->capture_default_str();
  whole("--devices", o.request.machine.devices, 1'000'000, "So many of them; 1");
  command->add_option("--hardware", o.hardware_file, "Table of hardware to use instead of the built-in one");
  command
      ->add_option("--compute-share", o.request.machine.compute_share,
                   "Part of the data sheet's arithmetic that is reached")
      ->check(real_number(0.001, 1))
      ->capture_default_str();
  command
      ->add_option("--read-share", o.request.machine.read_share, "Part of the data sheet's bandwidth that is reached")
      ->check(real_number(0.001, 1))
      ->capture_default_str();
  command->add_option("--weight-bits", o.weight_bits, "Bits of a weight; 16, or what the file has")
      ->check(real_number(1, 64));
  command->add_option("--parameters", o.parameters, "Of the model, such as 70B");
  whole("--layers", o.numbers.layers, 4096, "Of the model, by numbers or instead of its own");
  whole("--heads", o.numbers.q_heads, 4096, "Query heads");
  whole("--kv-heads", o.numbers.kv_heads, 4096, "Heads of keys and values");
  whole("--head-dim", o.numbers.head_dim, 65536, "Values in a head");
  whole("--latent", o.numbers.latent, 65536, "Values of the latent, with latent attention");
  whole("--rope", o.numbers.rope, 65536, "Values of its RoPE part");
  whole("--window", o.numbers.window, kMostPlannedTokens, "Tokens that local layers see");
  whole("--window-layers", o.numbers.window_layers, 4096, "Local layers; else all");
  command->add_flag("--json", o.json, "Print one JSON document");
  command->callback([options, &exit_status] { exit_status = plan(*options); });
}

}  // namespace quire::cli
