// The shape of a model as far as its cache and its speed go: from a table of names, from a model
// file, or from numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quire/result.h"

namespace quire {

struct PlanModel {
  std::string name;
  std::uint64_t parameters = 0;
  std::uint64_t active = 0;  // parameters that one token uses
  std::int64_t experts = 0, experts_used = 0;
  std::int64_t layers = 0;
  std::int64_t q_heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t latent = 0, rope = 0;  // multi-head latent attention: what one token keeps in a layer
  std::int64_t window = 0, window_layers = 0;
  std::int64_t context = 0;         // positions it was trained for; 0: not known
  std::uint64_t weights_bytes = 0;  // 0: not known

  bool is_latent() const { return latent > 0; }
  std::string_view attention() const;  // "mha", "gqa", "mqa" or "mla"
  // Values in the keys, or the values, that one token has before they become a latent.
  std::int64_t key_dim() const { return head_dim + (is_latent() ? rope : 0); }
  // Weights that a step of so many tokens reads: with experts, those that somebody is routed to.
  double weights_read(double tokens) const;
};

Result<void> check_model(const PlanModel& model);

// Presets, in the order of the table. What their weights take is for whoever knows the bits of each.
const std::vector<PlanModel>& plan_presets();
Result<std::vector<PlanModel>> parse_models(std::string_view text, std::string_view file);
Result<PlanModel> find_preset(std::string_view name);
Result<PlanModel> model_from_file(const std::string& path);

}  // namespace quire
