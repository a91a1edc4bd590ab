// From what a user asks of the cache to what the cache is told.
#pragma once

#include <cstdint>
#include <memory>

#include "cache/kv_cache.h"
#include "cache/policy/policy.h"
#include "model/config.h"
#include "model/kv_groups.h"
#include "quire/session.h"

namespace quire {

struct CacheSetup {
  CacheSettings settings;  // in their canonical spelling
  KvChoice choice;
  CacheStrategy strategy;
};

Result<CacheSetup> set_up_cache(const CacheSettings& settings);
CacheOptions cache_options(const CacheSetup& setup, const ModelConfig& config);

// A policy by its name, for a model that can follow it.
Result<std::shared_ptr<const RetentionPolicy>> policy_for(const ModelConfig& config, std::string_view name);

// Tokens a sequence may have under a policy: rotary positions go on for ever as long as no query
// looks further back than it was trained to.
std::int64_t token_limit(const ModelConfig& config, const RetentionPolicy& policy, std::int64_t context);

}  // namespace quire
