// Llama 1 to 3, SmolLM2, Mistral: RMSNorm, grouped-query attention, SwiGLU.
#include "core/fail.h"
#include "model/config.h"

namespace quire {

Result<void> describe_llama(const ArchKeys& keys, ModelConfig& config) {
  QUIRE_TRY(config.epsilon, keys.real("attention.layer_norm_rms_epsilon"));
  // The converter reorders query and key rows so that RoPE pairs neighbours.
  config.positions = PositionKind::rope_adjacent;
  if (keys.has("expert_count")) {
    QUIRE_TRY(const int experts, keys.integer("expert_count", 0, 65536));
    if (experts > 0) {
      return fail(Errc::unsupported, "{}: a mixture of {} experts; only dense models are supported",
                  keys.file().file_name(), experts);
    }
  }
  return {};
}

}  // namespace quire
