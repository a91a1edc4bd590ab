// The simplest cache: one buffer of keys and one of values per layer, for one sequence,
// reserved whole at creation. The baseline to learn from and to compare with.
//
//   keys of layer l:   head 0: [pos 0 | pos 1 | ... | pos max_length-1]
//                      head 1: [pos 0 | ...                           ]      each pos: head_dim values
//
// Head-major, because decoding reads one head's positions in order: they are contiguous.
// kv_stride = max_length * head_dim values lie between two heads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "kv/geometry.h"
#include "kv/view.h"
#include "quire/result.h"

namespace quire {

class FlatCache {
 public:
  // Everything is allocated and zero-filled here; nothing is allocated later. The format is one that
  // is written by token.
  static Result<FlatCache> create(const KvGeometry& geometry, std::int64_t max_length, KvFormat format = KvFormat::f16);

  FlatCache(FlatCache&&) = default;
  FlatCache& operator=(FlatCache&&) = default;
  FlatCache(const FlatCache&) = delete;
  FlatCache& operator=(const FlatCache&) = delete;

  const KvGeometry& geometry() const { return geometry_; }
  std::int64_t max_length() const { return max_length_; }
  std::int64_t current_length() const { return current_length_; }
  std::int64_t kv_stride() const { return max_length_ * geometry_.head_dim; }
  std::uint64_t bytes() const { return bytes_; }  // reserved, as allocated
  std::uint64_t bytes_per_token() const { return bytes_ / static_cast<std::uint64_t>(max_length_); }

  // Writes `count` tokens of one layer at positions current_length and on, without advancing:
  // all layers append, then the sequence advances once.
  //   keys, values: [count, kv_heads, head_dim]
  Result<void> append(int layer, std::span<const float> keys, std::span<const float> values, std::int64_t count);

  bool would_overflow(std::int64_t additional) const { return additional > max_length_ - current_length_; }
  Result<void> advance(std::int64_t count);
  // Forgets positions from `length` on. Nothing happens when the cache is no longer than that.
  Result<void> rollback(std::int64_t length);
  void reset() { current_length_ = 0; }

  // As kernels see it: pages that happen to lie side by side. Valid until the cache is moved or destroyed.
  KvGroupLayout layout(const KvVisibility& visible) const;
  KvTable table(const KvVisibility& visible) const { return {pages_.data(), nullptr, 0, 0, visible}; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  using Storage = std::unique_ptr<std::byte, Free>;

  FlatCache(const KvGeometry& geometry, std::int64_t max_length, KvFormat format, Storage storage, std::uint64_t bytes);
  std::int64_t value_bytes() const { return format_ == KvFormat::f32 ? 4 : 2; }

  KvGeometry geometry_;
  std::int64_t max_length_;
  KvFormat format_;
  std::int64_t current_length_ = 0;
  // Per layer: keys, then values, each [kv_heads, max_length, head_dim]. From calloc: the system
  // hands out zero pages as they are touched, so a long context costs nothing until it is used.
  Storage storage_;
  std::uint64_t bytes_;
  std::vector<KvTableEntry> pages_;  // into storage_
};

}  // namespace quire
