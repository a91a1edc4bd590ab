// Qwen 2 and 2.5 (biases on queries, keys and values) and Qwen 3 (QK norm instead).
#include "core/fail.h"
#include "model/config.h"

namespace quire {

Result<void> describe_qwen2(const ArchKeys& keys, ModelConfig& config) {
  QUIRE_TRY(config.epsilon, keys.real("attention.layer_norm_rms_epsilon"));
  config.positions = PositionKind::rope_split;
  return {};
}

Result<void> describe_qwen3(const ArchKeys& keys, ModelConfig& config) {
  config.qk_norm = true;
  return describe_qwen2(keys, config);
}

}  // namespace quire
