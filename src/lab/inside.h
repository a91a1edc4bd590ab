// A model opened up: one sequence whose keys, values and attention can be looked at and changed. For experiments on
// what the cache holds; sessions and engines show none of it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/flat_cache.h"
#include "core/thread_pool.h"
#include "model/decoder.h"
#include "quire/model.h"

namespace quire::lab {

enum class KvStream { keys, values };

class Inside {
 public:
  // f16 keys and values, as sessions keep them.
  static Result<std::unique_ptr<Inside>> create(std::shared_ptr<const Model> model, std::int64_t context, int threads);

  // The next tokens, all at once: logits after each of them from the `from`th on, valid until the next call.
  // With `scored` rows, attention() tells what the last so many of them looked at.
  Result<std::span<const float>> compute(std::span<const TokenId> tokens, std::int64_t from, std::int64_t scored = 0);
  void reset() { cache_.reset(); }
  // What the largest computation so far needed beside weights and cache.
  std::int64_t scratch_bytes() const { return decoder_.scratch_bytes(); }
  std::int64_t length() const { return cache_.current_length(); }

  // [layers, kv_heads, length]: what each cached token got from the scored rows, over the query heads of a KV head.
  // Layers with a window of their own got nothing.
  std::span<const float> attention() const { return attention_; }

  // One head's keys or values, [length, head_dim]; keys are turned to their positions.
  std::vector<float> read(KvStream stream, std::int64_t layer, std::int64_t head) const;
  void write(KvStream stream, std::int64_t layer, std::int64_t head, std::span<const float> rows);

  int layers() const { return cache_.geometry().layers; }
  std::int64_t kv_heads() const { return cache_.geometry().kv_heads; }
  std::int64_t head_dim() const { return cache_.geometry().head_dim; }

 private:
  Inside(std::shared_ptr<const Model> model, FlatCache cache, const Ops& ops, int threads);
  const KvStreamLayout& layout(KvStream stream) const;

  std::shared_ptr<const Model> model_;
  FlatCache cache_;
  ThreadPool pool_;
  Decoder decoder_;
  std::vector<KvGroupLayout> groups_;
  std::vector<KvTable> tables_;
  std::vector<KvLayerRef> layers_;
  std::vector<float> attention_;
};

}  // namespace quire::lab
