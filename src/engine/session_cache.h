// What a session needs of a cache, paged or flat: room for the next tokens, the views to compute
// into, and a report.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cache/flat_cache.h"
#include "cache/kv_cache.h"
#include "cache/policy/policy.h"
#include "model/decoder.h"
#include "model/kv_groups.h"
#include "quire/session.h"

namespace quire {

// One sequence of a paged cache that several sessions share; it leaves the cache when this goes.
class OpenSequence {
 public:
  static Result<OpenSequence> open(std::shared_ptr<KvCache> cache, const SequenceOptions& options);
  Result<OpenSequence> fork() const;

  OpenSequence() = default;
  OpenSequence(OpenSequence&& other) noexcept : cache_(std::move(other.cache_)), id_(other.id_) {}
  OpenSequence& operator=(OpenSequence&& other) noexcept {
    std::swap(cache_, other.cache_);
    std::swap(id_, other.id_);
    return *this;
  }
  ~OpenSequence() {
    if (cache_ != nullptr) cache_->release(id_);
  }

  SequenceId id() const { return id_; }
  KvCache& cache() const { return *cache_; }

 private:
  OpenSequence(std::shared_ptr<KvCache> cache, SequenceId id) : cache_(std::move(cache)), id_(id) {}
  static SequenceId unused(const KvCache& cache);

  std::shared_ptr<KvCache> cache_;
  SequenceId id_ = 0;
};

class SessionCache {
 public:
  static Result<SessionCache> create(const ModelConfig& config, const SessionOptions& options);
  // The same tokens, sharing their pages until one of the two goes on.
  Result<SessionCache> fork() const;

  std::span<const TokenId> tokens() const { return tokens_; }
  std::int64_t length() const { return std::ssize(tokens_); }
  std::int64_t limit() const { return limit_; }  // tokens a sequence may have

  // Room for `count` more tokens of a prompt that will have `prompt` tokens: what to compute into.
  Result<BatchSequence> prepare(std::int64_t count, std::int64_t prompt);
  std::span<const KvGroupLayout> groups() const { return groups_; }
  std::span<const KvLayerRef> layers() const { return layers_; }
  // The tokens computed. Afterwards the policy lets go of what it does not keep.
  Result<void> commit(std::span<const TokenId> tokens, std::int64_t prompt);

  // Whether a sequence of so many tokens is cached at all.
  bool caches(std::int64_t tokens) const { return strategy_.caches(tokens); }
  // Back to `length` tokens, or fewer where the cache cannot go on from there.
  void rollback(std::int64_t length);

  CacheReport report() const;

 private:
  friend class CacheFaults;
  SessionCache() = default;
  KvCache& paged() const { return sequence_.cache(); }

  CacheSettings settings_;
  std::int64_t limit_ = 0;
  CacheStrategy strategy_;
  std::shared_ptr<const RetentionPolicy> policy_;
  OpenSequence sequence_;  // of the paged cache
  std::optional<FlatCache> flat_;
  std::vector<KvGroupLayout> groups_;
  std::vector<KvLayerRef> layers_;
  std::vector<TokenId> tokens_;
  std::vector<KvTable> tables_;   // [groups], of the step at hand
  std::vector<float> scores_;     // of the step at hand
  std::int64_t write_shift_ = 0;  // slots; 0 but for faults on purpose
};

}  // namespace quire
