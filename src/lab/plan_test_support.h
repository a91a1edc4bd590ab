#pragma once

#include <gtest/gtest.h>

#include <string>

#include "lab/plan.h"

namespace quire {

inline PlanModel preset(const std::string& name) {
  auto model = find_preset(name);
  EXPECT_TRUE(model.ok()) << name;
  model->weights_bytes = 2 * model->parameters;
  return *model;
}

inline PlanModel shape(std::int64_t layers, std::int64_t q_heads, std::int64_t kv_heads, std::int64_t head_dim) {
  PlanModel model;
  model.name = "shape";
  model.layers = layers;
  model.q_heads = q_heads;
  model.kv_heads = kv_heads;
  model.head_dim = head_dim;
  return model;
}

inline CacheDemand demand_of(const PlanModel& model, const std::string& format = "f16", CacheChoice choice = {}) {
  choice.settings.type_k = choice.settings.type_v = format;
  auto demand = CacheDemand::create(model, choice);
  EXPECT_TRUE(demand.ok());
  return *demand;
}

inline constexpr double kMiB = 1024.0 * 1024.0, kGiB = 1024.0 * kMiB;

}  // namespace quire
