#include "model/kv_groups.h"

#include <algorithm>

namespace quire {

KvGroups kv_groups(const ModelConfig& config, const KvChoice& choice) {
  KvGroups result;
  for (const LayerConfig& layer : config.layer) {
    const KvVisibility visible{0, layer.window};
    auto group = std::ranges::find(result.groups, visible, &KvGroupSpec::visible);
    if (group == result.groups.end()) {
      KvGroupSpec spec;
      spec.kv_heads = config.kv_heads;
      spec.key_dim = spec.value_dim = config.head_dim;
      spec.keys = choice.keys;
      spec.values = choice.values;
      spec.visible = visible;
      spec.sink_pages = choice.sink_pages;
      spec.recent_pages = choice.recent_pages;
      group = result.groups.insert(result.groups.end(), spec);
    }
    result.layer_map.push_back({group - result.groups.begin(), group->layers++});
  }
  return result;
}

}  // namespace quire
