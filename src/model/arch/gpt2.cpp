// GPT-2: learned positions, LayerNorm, one tensor for queries, keys and values, a plain GELU MLP.
#include "core/fail.h"
#include "model/config.h"

namespace quire {

Result<void> describe_gpt2(const ArchKeys& keys, ModelConfig& config) {
  QUIRE_TRY(config.epsilon, keys.real("attention.layer_norm_epsilon"));
  config.norm = NormParams::Kind::layer;
  config.positions = PositionKind::learned;
  config.ropes.clear();
  config.fused_qkv = true;
  config.gated_mlp = false;
  config.activation = ActivateParams::Kind::gelu_tanh;
  return {};
}

}  // namespace quire
