// Gemma 3: five layers with a local window, then one that sees everything; norms before and after.
#include <cmath>

#include "core/fail.h"
#include "model/config.h"

namespace quire {
namespace {

// The period of the layer pattern; older files do not say it.
constexpr int kDefaultPattern = 6;
// The 27B model alone scales by its width per head, not by the head's size; its files do not say so.
constexpr int kLayersOf27B = 62;

}  // namespace

Result<void> describe_gemma3(const ArchKeys& keys, ModelConfig& config) {
  QUIRE_TRY(config.epsilon, keys.real("attention.layer_norm_rms_epsilon"));
  config.positions = PositionKind::rope_split;
  config.qk_norm = true;
  config.post_norms = true;
  config.activation = ActivateParams::Kind::gelu_tanh;
  config.embedding_scale = std::sqrt(static_cast<float>(config.width));

  if (config.layers == kLayersOf27B && !keys.has("attention.scale")) {
    config.attention_scale = 1.f / std::sqrt(static_cast<float>(config.width) / static_cast<float>(config.q_heads));
  }

  if (!keys.has("rope.freq_base")) config.ropes[0].base = 1e6;
  RopeConfig local;
  local.use_factors = false;
  QUIRE_TRY(local.base, keys.real_or("rope.freq_base_swa", 10000.f));
  config.ropes.push_back(local);

  int pattern = kDefaultPattern;
  if (keys.has("attention.sliding_window_pattern")) {
    QUIRE_TRY(pattern, keys.integer("attention.sliding_window_pattern", 1, 4096));
  }
  QUIRE_TRY(const int window, keys.integer("attention.sliding_window", 1, 1 << 30));
  for (int i = 0; i < config.layers; ++i) {
    if (i % pattern != pattern - 1) config.layer[static_cast<std::size_t>(i)] = {window, 1};
  }
  return {};
}

}  // namespace quire
