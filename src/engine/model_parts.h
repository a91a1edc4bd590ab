// What a loaded model consists of.
#pragma once

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/hash.h"
#include "engine/chat_dialect.h"
#include "loader/gguf.h"
#include "loader/mapped_file.h"
#include "model/config.h"
#include "model/weights.h"
#include "quire/model.h"
#include "text/tokenizer.h"

namespace quire {

struct Model::Parts {
  MappedFile file;  // weights and metadata point into it
  Gguf gguf;
  ModelConfig config;
  mutable Weights weights;
  Tokenizer tokenizer;
  std::optional<ChatDialect> chat;
  ModelInfo info;
  std::string packed_path = {};  // where packed weights are kept; empty: nowhere
  Digest file_state = {};        // of the file's size and time
  mutable std::mutex packing = {};
  mutable PackedFileUse packed_use = {};
  mutable std::once_flag hashing = {};
  mutable Digest file_digest = {};

  // Of the whole file: reads all of it the first time.
  const Digest& fingerprint() const {
    std::call_once(hashing, [&] { file_digest = Hasher().update(file.bytes()).finish(); });
    return file_digest;
  }

  // Arranged for this backend too, where it packs. Throws std::bad_alloc.
  const Weights& weights_for(const Ops& ops, ThreadPool& pool) const {
    const std::lock_guard lock(packing);
    if (ops.pack == nullptr) return weights;
    // One set of kernels has the file; what others read besides is packed in memory.
    if (!packed_path.empty() && packed_use.done == PackedFileUse::Done::nothing) {
      packed_use = pack_weights_in_file(weights, ops, pool, packed_path, file_state);
    }
    pack_weights(weights, ops, pool);
    return weights;
  }
  PackedFileUse use_of_packed_file() const {
    const std::lock_guard lock(packing);
    return packed_use;
  }

  // A bias under which no answer ends.
  std::vector<std::pair<TokenId, float>> bias_against_ending() const {
    std::vector<std::pair<TokenId, float>> bias;
    for (TokenId token = 0; token < config.vocabulary; ++token) {
      if (tokenizer.is_end_of_generation(token)) bias.emplace_back(token, -100.f);
    }
    return bias;
  }
};

}  // namespace quire
