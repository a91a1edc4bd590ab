// What a cache should hold, kept the naive way: whole token lists, one flag per page, no sharing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/policy/policy.h"
#include "cache/property/truth.h"

namespace quire::property {

struct PageModel {
  bool wide = false;
  bool packed = false;
};

// One sequence in one layer group.
struct GroupModel {
  KvVisibility visible;
  std::vector<PageModel> pages;
  std::int64_t first_position = 0;
  std::int64_t kept_tokens = 0;
  std::vector<Bytes> kept;     // pages
  std::vector<Floats> scores;  // [layer, head][cached token]

  bool has(std::int64_t page) const { return pages[index(page)].wide || pages[index(page)].packed; }
};

struct SequenceModel {
  History history;
  KvVisibility policy;
  std::vector<GroupModel> groups;
  bool named = true;  // its pages may be found by others
  bool plain = true;  // grown by appending alone, so that the estimate holds

  std::int64_t length() const { return history.length(); }
  std::int64_t cached(std::size_t group) const {
    return groups[group].kept_tokens + length() - groups[group].first_position;
  }
};

class Oracle {
 public:
  Oracle(std::span<const KvGroupLayout> layouts, PageBytes& bytes);

  SequenceModel open(Hash salt, const KvVisibility& policy) const;
  void commit(SequenceModel& sequence, std::span<const TokenId> tokens);
  void checkpoint(const SequenceModel& sequence);
  // What reuse() finds if nothing has left the index.
  std::int64_t expected_hit(const SequenceModel& sequence, std::span<const TokenId> prompt) const;
  void attach(SequenceModel& sequence, std::span<const TokenId> prompt, std::int64_t hit) const;
  // Returns the length reached.
  std::int64_t rollback(SequenceModel& sequence, std::int64_t length) const;
  void drop_front(SequenceModel& sequence, std::int64_t position) const;
  void add_scores(SequenceModel& sequence, std::span<const float> sums, std::span<const KvLayerRef> places) const;
  void evict(SequenceModel& sequence, const Eviction& eviction, const RetentionPolicy& policy);

  bool shares() const { return shares_; }
  std::uint64_t held_bytes(const SequenceModel& sequence) const;
  std::uint64_t encoded_pages() const { return encoded_pages_; }
  std::uint64_t evicted_tokens() const { return evicted_tokens_; }

 private:
  // A block of 32 tokens that the index knows, with everything before it.
  struct Indexed {
    Hash salt;
    std::vector<TokenId> tokens;
    struct Pages {
      bool far = false, twin = false;
    };
    std::vector<Pages> groups;
  };
  Indexed& indexed(Hash salt, std::span<const TokenId> tokens);
  const Indexed* find(Hash salt, std::span<const TokenId> tokens) const;
  Indexed::Pages needed(const KvGroupLayout& layout, std::int64_t page, std::int64_t blocks) const;
  std::int64_t partial_hit(Hash salt, std::span<const TokenId> prompt, std::int64_t blocks) const;
  bool resumable(const SequenceModel& sequence, std::int64_t length) const;
  void evict_group(std::size_t group, SequenceModel& sequence, const Eviction& eviction, const RetentionPolicy& policy);
  // One head's tokens before `first_position`, kept ones first. [count, dim]
  Floats candidate_rows(std::size_t group, const SequenceModel& sequence, std::int64_t first_position,
                        std::int64_t layer, std::int64_t head, Stream stream);

  std::vector<KvGroupLayout> layouts_;
  PageBytes& bytes_;
  bool shares_;
  std::vector<Indexed> index_;
  std::uint64_t encoded_pages_ = 0, evicted_tokens_ = 0;
};

}  // namespace quire::property
