// A smaller model that guesses what a larger one will say. It keeps a cache of its own, in which each
// answer has a sequence; those that were not asked for longest leave when room is short.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "cache/kv_cache.h"
#include "core/thread_pool.h"
#include "engine/job.h"
#include "engine/model_parts.h"
#include "model/decoder.h"

namespace quire {

class DraftModel {
 public:
  // Refuses a model whose tokens are not those of `large`.
  static Result<std::unique_ptr<DraftModel>> create(std::shared_ptr<const Model> model, const Model& large,
                                                    const Ops& ops, ThreadPool& pool, std::uint64_t bytes);

  // Fills in the guesses of works that have room for some; fewer, or none, where the model cannot.
  void propose(std::span<Work> works);

 private:
  struct Asked {
    Work* work;
    SequenceId sequence;
    std::vector<TokenId> tokens;  // of the branch, and guesses so far
    std::size_t wanted;
  };

  DraftModel(std::shared_ptr<const Model> model, const Ops& ops, ThreadPool& pool, std::unique_ptr<KvCache> cache);
  SequenceId sequence_of(const Branch& branch, std::span<const TokenId> tokens);
  bool release_oldest(std::span<const Asked> but);
  // Computes what the sequences lack, up to some tokens each; false where there is no room.
  bool advance(std::vector<Asked>& asked);

  struct Entry {
    SequenceId sequence;
    std::uint64_t used;
  };

  std::shared_ptr<const Model> model_;
  Decoder decoder_;
  std::unique_ptr<KvCache> cache_;
  std::map<std::uint64_t, Entry> entries_;  // by Branch::id
  SequenceId next_sequence_ = 1;
  std::uint64_t clock_ = 0;
};

}  // namespace quire
