// One prompt, computed once; then policies that act after it, each on a fork of its own.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/kv_cache.h"
#include "core/thread_pool.h"
#include "lab/workbench.h"
#include "model/decoder.h"

namespace quire::lab {

class EvictionRig {
 public:
  static Result<std::unique_ptr<EvictionRig>> create(const Workbench& bench);

  // Starts anew with this prompt, and notes what its tokens attended to.
  Result<void> prefill(std::span<const TokenId> prompt);

  // What a policy left of the prompt, going on by itself. One at a time: the last one ends when the next begins.
  struct Kept {
    std::uint64_t bytes = 0;
    KvVisibility visible;  // of windows and sinks, which let nothing go but hide it
  };
  Result<Kept> apply(const std::string& policy);
  // The next tokens of what apply() left: logits after each of them, valid until the next call.
  Result<std::span<const float>> go_on(std::span<const TokenId> tokens, const Kept& kept);

 private:
  EvictionRig(std::shared_ptr<const Model> model, std::unique_ptr<KvCache> cache, const Ops& ops, int threads);
  Result<std::span<const float>> compute(SequenceId id, std::span<const TokenId> tokens, std::int64_t scored,
                                         std::vector<float>* sums, const KvVisibility& visible, bool with_logits);

  std::shared_ptr<const Model> model_;
  std::unique_ptr<KvCache> cache_;
  ThreadPool pool_;
  Decoder decoder_;
  std::int64_t prompt_ = 0;
  std::vector<float> votes_, all_;  // [layers, kv_heads, prompt]: from its last tokens, and from all
};

}  // namespace quire::lab
