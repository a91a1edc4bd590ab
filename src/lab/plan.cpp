#include "lab/plan.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/fail.h"

namespace quire {
namespace {

// Of a device's memory, what is left to weights and cache beside activations and the runtime.
constexpr double kUsableMemory = 0.9;

Result<void> check_count(std::string_view what, std::int64_t value, std::int64_t most) {
  if (value >= 1 && value <= most) return {};
  return fail(Errc::invalid_argument, "{} {}; expected 1 to {}", what, value, most);
}

Result<void> check(const PlanRequest& r) {
  QUIRE_CHECK_OK(check_model(r.model));
  QUIRE_CHECK_OK(check_count("--ctx-size", r.context, kMostPlannedTokens));
  QUIRE_CHECK_OK(check_count("--sequences", r.sequences, kMostPlannedSequences));
  QUIRE_CHECK_OK(check_count("--mean-tokens", r.mean_tokens, r.context));
  QUIRE_CHECK_OK(check_count("--devices", r.machine.devices, 1'000'000));
  if (r.generate < 0 || r.generate >= r.context) {
    return fail(Errc::invalid_argument, "--generate {} of a context of {}; expected fewer, a prompt comes first",
                r.generate, r.context);
  }
  for (const double share : {r.machine.compute_share, r.machine.read_share}) {
    if (share > 0 && share <= 1) continue;
    return fail(Errc::invalid_argument,
                "a share of {} of what the data sheet promises; expected more than 0, at most 1", share);
  }
  return {};
}

double usable_memory(const Machine& machine) {
  return machine.device.memory_bytes * static_cast<double>(machine.devices) * kUsableMemory;
}

std::uint64_t memory_beside_weights(const PlanRequest& r) {
  return static_cast<std::uint64_t>(
      std::max(0.0, usable_memory(r.machine) - static_cast<double>(r.model.weights_bytes)));
}

Result<CacheDemand> demand(const PlanRequest& r, const PlanModel& model, CacheChoice choice, bool own_windows) {
  choice.own_windows = own_windows && r.model.window_layers > 0;
  return CacheDemand::create(model, choice);
}

CacheFigures figures(const CacheDemand& cache, const Plan& plan) {
  return {cache.bytes(plan.context, plan.sequences), cache.sequences_within(plan.memory, plan.context),
          cache.context_within(plan.memory, plan.sequences)};
}

Result<void> add_formats(const PlanRequest& r, Plan& plan) {
  for (const KvFormatInfo& format : kv_formats()) {
    CacheChoice choice = r.cache;
    choice.settings.type_k = choice.settings.type_v = format.name;
    QUIRE_TRY(const CacheDemand cache, demand(r, r.model, choice, false));
    QUIRE_TRY(const CacheDemand held, demand(r, r.model, choice, true));
    plan.formats.push_back({std::string(format.name), std::string(format.name), cache.bytes_per_token(),
                            cache.bytes(r.context, r.sequences), held.paged_bytes(r.context, r.sequences),
                            cache.sequences_within(plan.memory, r.context),
                            held.sequences_within(plan.memory, r.context)});
  }
  return {};
}

// Latent attention as DeepSeek made it: a latent of four heads, and half a head for positions.
PlanModel with_attention(PlanModel model, std::string_view kind) {
  if (kind == model.attention()) return model;
  model.latent = model.rope = 0;
  if (kind == "mha") model.kv_heads = model.q_heads;
  if (kind == "mqa") model.kv_heads = 1;
  if (kind == "gqa") {  // eight query heads to a KV head, as most have it
    model.kv_heads = std::max<std::int64_t>(1, model.q_heads / 8);
    while (model.q_heads % model.kv_heads != 0) --model.kv_heads;
  }
  if (kind == "mla") {
    model.kv_heads = 1;
    model.latent = 4 * model.head_dim;
    model.rope = std::max<std::int64_t>(1, model.head_dim / 2);
  }
  return model;
}

Result<void> add_attention(const PlanRequest& r, Plan& plan) {
  for (const std::string_view kind : {"mha", "gqa", "mqa", "mla"}) {
    const PlanModel model = with_attention(r.model, kind);
    QUIRE_TRY(const CacheDemand cache, demand(r, model, r.cache, false));
    const std::int64_t values = model.is_latent() ? model.latent + model.rope : 2 * model.kv_heads * model.head_dim;
    plan.attention.push_back(
        {std::string(kind), model.kv_heads, values, cache.bytes_per_token(), cache.bytes(r.context, r.sequences)});
  }
  return {};
}

Result<void> add_savings(const PlanRequest& r, Plan& plan) {
  CacheChoice choice;
  PlanModel model = with_attention(r.model, "mha");
  bool windows = false;
  const auto add = [&](std::string what) -> Result<void> {
    QUIRE_TRY(const CacheDemand cache, demand(r, model, choice, windows));
    const std::uint64_t bytes = cache.bytes(r.context, r.sequences);
    const double before =
        plan.savings.empty() ? static_cast<double>(bytes) : static_cast<double>(plan.savings.back().kv_bytes);
    plan.savings.push_back({std::move(what), bytes, static_cast<double>(bytes) / before});
    return {};
  };
  QUIRE_CHECK_OK(add("every query head its own keys and values, f16"));
  if (r.model.attention() != "mha") {
    model = r.model;
    QUIRE_CHECK_OK(add(fmt::format("the model's own attention, {}", model.attention())));
  }
  if (r.model.window_layers > 0) {
    windows = true;
    QUIRE_CHECK_OK(add(fmt::format("{} of {} layers see {} tokens", model.window_layers, model.layers, model.window)));
  }
  if (plan.policy != "full") {
    choice.settings.policy = r.cache.settings.policy;
    QUIRE_CHECK_OK(add(fmt::format("policy {}", plan.policy)));
  }
  if (plan.type_k != "f16" || plan.type_v != "f16") {
    choice.settings.type_k = plan.type_k;
    choice.settings.type_v = plan.type_v;
    QUIRE_CHECK_OK(add(fmt::format("keys {}, values {}", plan.type_k, plan.type_v)));
  }
  if (r.cache.share_layers > 1) {
    choice.share_layers = r.cache.share_layers;
    QUIRE_CHECK_OK(add(fmt::format("{} layers share one cache", choice.share_layers)));
  }
  if (r.cache.shared_prefix > 0) {
    choice.shared_prefix = r.cache.shared_prefix;
    QUIRE_CHECK_OK(add(fmt::format("{:.0f} % of every sequence is one prefix", 100 * choice.shared_prefix)));
  }
  return {};
}

void add_batches(const PlanRequest& r, const CacheDemand& held, Plan& plan) {
  const std::int64_t most = std::clamp<std::int64_t>(held.sequences_within(plan.memory, r.context), 1, 4096);
  std::vector<std::int64_t> sizes;
  for (std::int64_t n = 1; n < most; n *= 2) sizes.push_back(n);
  sizes.push_back(most);
  for (const std::int64_t n : sizes) {
    const PhaseTime step = decode_time(r.model, held, r.machine, r.context, n);
    plan.batches.push_back({n, step.ms, 1000 * static_cast<double>(n) / step.ms,
                            dollars_per_million(r.machine, step.ms, static_cast<double>(n)), step.compute_bound,
                            held.bytes(r.context, n) <= plan.memory});
  }
}

// Doublings of the context, up to where the cache outweighs the weights if that is in sight.
void add_lengths(const PlanRequest& r, const CacheDemand& held, Plan& plan) {
  std::int64_t last = std::max<std::int64_t>(r.context, 1024);
  if (plan.kv_exceeds_weights_at < 64 * last) last = std::max(last, plan.kv_exceeds_weights_at);
  const auto end = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(last)));
  for (std::int64_t context = std::max<std::int64_t>(end / 64, 1); context <= end; context *= 2) {
    plan.lengths.push_back({context, held.bytes(context, r.sequences)});
  }
}

std::int64_t devices_needed(const PlanRequest& r, const CacheDemand& held, const Hardware& hardware) {
  const double needed =
      static_cast<double>(r.model.weights_bytes) + static_cast<double>(held.bytes(r.context, r.sequences));
  Machine one = r.machine;
  one.device = hardware;
  one.devices = 1;
  return static_cast<std::int64_t>(std::max(1.0, std::ceil(needed / usable_memory(one))));
}

void add_hardware(const PlanRequest& r, const CacheDemand& held, std::int64_t cached, Plan& plan) {
  for (const Hardware& hardware : r.hardware) {
    Machine machine = r.machine;
    machine.device = hardware;
    machine.devices = devices_needed(r, held, hardware);
    const PhaseTime prefill = prefill_time(r.model, held, machine, cached, r.context);
    const PhaseTime decode = decode_time(r.model, held, machine, r.context, r.sequences);
    const auto n = static_cast<double>(r.sequences);
    plan.hardware.push_back({hardware, machine.devices, prefill.ms, decode.ms, 1000 * n / decode.ms,
                             dollars_per_million(machine, prefill.ms, static_cast<double>(r.context)),
                             dollars_per_million(machine, decode.ms, n)});
  }
}

}  // namespace

Result<Plan> make_plan(PlanRequest r) {
  if (r.context == 0) r.context = r.model.context > 0 ? r.model.context : 4096;
  if (r.mean_tokens == 0) r.mean_tokens = std::max<std::int64_t>(1, r.context / 2);
  QUIRE_CHECK_OK(check(r));
  QUIRE_TRY(const CacheDemand cache, demand(r, r.model, r.cache, false));
  QUIRE_TRY(const CacheDemand held, demand(r, r.model, r.cache, true));
  QUIRE_TRY(const auto policy, parse_policy(r.cache.settings.policy));
  if (cache.bytes(r.context, r.sequences) == kTooManyBytes) {
    return fail(Errc::invalid_argument,
                "{} sequences of {} tokens of '{}' take more bytes than 2^64; check the numbers", r.sequences,
                r.context, r.model.name);
  }

  Plan plan;
  plan.model = r.model;
  plan.type_k = info(*find_kv_format(r.cache.settings.type_k)).name;
  plan.type_v = info(*find_kv_format(r.cache.settings.type_v)).name;
  plan.policy = policy->name();
  plan.context = r.context;
  plan.sequences = r.sequences;
  plan.mean_tokens = r.mean_tokens;
  plan.bytes_per_token = cache.bytes_per_token();
  plan.memory = r.memory.value_or(memory_beside_weights(r));
  plan.all_layers = figures(cache, plan);
  if (r.model.window_layers > 0) plan.with_windows = figures(held, plan);
  plan.paged_bytes = held.paged_bytes(r.context, r.sequences);
  plan.sequences_paged = held.paged_sequences_within(plan.memory, r.mean_tokens);
  plan.sequences_preallocated = static_cast<std::int64_t>(plan.memory / cache.preallocated_bytes(r.context));
  if (r.model.weights_bytes > 0) {
    const std::int64_t within = cache.context_within(r.model.weights_bytes, r.sequences);
    plan.kv_exceeds_weights_at = within < kMostPlannedTokens ? within + 1 : 0;
  }
  plan.machine = r.machine;
  plan.devices_needed = devices_needed(r, held, r.machine.device);
  const auto cached = static_cast<std::int64_t>(static_cast<double>(r.context) * r.cache.shared_prefix);
  plan.prefill = prefill_time(r.model, held, r.machine, cached, r.context);
  plan.decode = decode_time(r.model, held, r.machine, r.context, r.sequences);
  plan.dollars_per_million_in = dollars_per_million(r.machine, plan.prefill.ms, static_cast<double>(r.context));
  plan.dollars_per_million_out = dollars_per_million(r.machine, plan.decode.ms, static_cast<double>(r.sequences));
  QUIRE_CHECK_OK(add_formats(r, plan));
  QUIRE_CHECK_OK(add_attention(r, plan));
  QUIRE_CHECK_OK(add_savings(r, plan));
  add_batches(r, held, plan);
  add_lengths(r, held, plan);
  add_hardware(r, held, cached, plan);
  if (r.generate > 0) plan.generating = generating(r.model, cache, r.context - r.generate, r.generate);
  return plan;
}

}  // namespace quire
