#include "engine/cache_setup.h"

#include <limits>

#include "core/fail.h"
#include "core/memory_limit.h"

namespace quire {
namespace {

Result<KvFormat> format_of(std::string_view name) {
  if (const auto format = find_kv_format(name)) return *format;
  std::string names;
  for (const KvFormatInfo& format : kv_formats()) names += fmt::format("{}{}", names.empty() ? "" : ", ", format.name);
  return fail(Errc::invalid_argument, "cache type '{}' is not known; expected {}", name, names);
}

// The first page in 16 bits is nearly free and worth a tenth of the error.
constexpr std::int64_t kDefaultSinks = kPageTokens;

// Below four bits the recent tokens must be exact too, or text falls apart.
std::int64_t default_recent(KvFormat keys, KvFormat values) {
  const auto coarse = [](KvFormat f) { return f == KvFormat::q2 || f == KvFormat::k2; };
  return coarse(keys) || coarse(values) ? 128 : 0;
}

}  // namespace

Result<CacheSetup> set_up_cache(const CacheSettings& settings) {
  CacheSetup setup;
  setup.settings = settings;
  QUIRE_TRY(setup.strategy, parse_strategy(settings.strategy));
  QUIRE_TRY(setup.choice.keys, format_of(settings.type_k));
  QUIRE_TRY(setup.choice.values, format_of(settings.type_v));
  setup.settings.type_k = info(setup.choice.keys).name;
  setup.settings.type_v = info(setup.choice.values).name;
  setup.choice.sink_pages = pages_for(settings.sinks >= 0 ? settings.sinks : kDefaultSinks);
  setup.choice.recent_pages =
      pages_for(settings.recent >= 0 ? settings.recent : default_recent(setup.choice.keys, setup.choice.values));
  if (settings.bytes == 0) setup.settings.bytes = usable_memory();
  return setup;
}

CacheOptions cache_options(const CacheSetup& setup, const ModelConfig& config) {
  KvGroups groups = kv_groups(config, setup.choice);
  CacheOptions options;
  options.groups = std::move(groups.groups);
  options.layer_map = std::move(groups.layer_map);
  options.budget_bytes = setup.settings.bytes;
  options.strategy = setup.strategy;
  return options;
}

Result<std::shared_ptr<const RetentionPolicy>> policy_for(const ModelConfig& config, std::string_view name) {
  QUIRE_TRY(std::shared_ptr<const RetentionPolicy> policy, parse_policy(name));
  if (policy->visible().sinks > 0 && config.positions == PositionKind::learned) {
    return fail(Errc::unsupported,
                "cache policy {}: {} learned its positions, so tokens cannot move; use window or full", name,
                config.name);
  }
  return policy;
}

std::int64_t token_limit(const ModelConfig& config, const RetentionPolicy& policy, std::int64_t context) {
  const bool endless = policy.visible().window > 0 && config.positions != PositionKind::learned;
  return endless ? std::numeric_limits<std::int64_t>::max() : context;
}

}  // namespace quire
