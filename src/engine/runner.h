// Computes a step: it knows tokens, positions and pages, and nothing of requests.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/kv_cache.h"
#include "core/thread_pool.h"
#include "engine/job.h"
#include "engine/model_parts.h"
#include "model/decoder.h"

namespace quire {

class Runner {
 public:
  Runner(const Model::Parts& parts, const Ops& ops, int threads);

  // Results are valid until the next step.
  void forward(const KvCache& cache, Step& step);
  std::span<const float> logits(std::int64_t row) const {
    return logits_.subspan(static_cast<std::size_t>(row) * vocabulary_, vocabulary_);
  }
  std::span<const float> hidden(std::int64_t row) const {
    return decoder_.hidden().subspan(static_cast<std::size_t>(row) * width_, width_);
  }
  ThreadPool& pool() { return pool_; }

 private:
  ThreadPool pool_;
  Decoder decoder_;
  std::size_t vocabulary_, width_;
  std::span<const float> logits_;
  std::vector<TokenId> tokens_;
  std::vector<BatchSequence> sequences_;
  std::vector<std::int64_t> rows_, hidden_rows_;
};

}  // namespace quire
