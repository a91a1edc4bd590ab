// Which layers of a model may keep their keys and values in the same pages.
#pragma once

#include <vector>

#include "kv/layout.h"
#include "model/config.h"

namespace quire {

// What a user asks of the cache, for all layers.
struct KvChoice {
  KvFormat keys = KvFormat::f16;
  KvFormat values = KvFormat::f16;
  std::int64_t sink_pages = 0;
  std::int64_t recent_pages = 0;
};

struct KvGroups {
  std::vector<KvGroupSpec> groups;
  std::vector<KvLayerRef> layer_map;  // [model layers]
};

// One group per window that occurs among the layers: a Llama has one, Gemma 3 two.
KvGroups kv_groups(const ModelConfig& config, const KvChoice& choice);

}  // namespace quire
