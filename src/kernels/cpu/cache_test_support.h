// Sequences in pages, for the tests of what reads and writes them. Whatever is not a token of the
// sequence is NaN, or a null pointer.
#pragma once

#include <memory>
#include <string>

#include "kernels/cpu/kernel_test_support.h"
#include "kv/format/layouts.h"

namespace quire::testing_support {

struct CacheShape {
  std::int64_t q_heads = 9, kv_heads = 3, key_dim = 64, value_dim = 64;
  KvFormat keys = KvFormat::f16, values = KvFormat::f16;
  KvOrder key_order = KvOrder::lanes;
  bool latent = false;
  KvVisibility visible{};
  std::int64_t sink_pages = 0, recent_pages = 0;

  std::int64_t query_dim() const { return key_dim + (latent ? value_dim : 0); }
};

inline std::string describe(const CacheShape& s) {
  return std::string(info(s.keys).name) + "/" + std::string(info(s.values).name) +
         (s.key_order == KvOrder::rows ? " rows" : "") + " dims " + std::to_string(s.key_dim) + "/" +
         std::to_string(s.value_dim) + " heads " + std::to_string(s.q_heads) + "/" + std::to_string(s.kv_heads) +
         " window " + std::to_string(s.visible.window) + " sinks " + std::to_string(s.visible.sinks) + " wide pages " +
         std::to_string(s.sink_pages) + "+" + std::to_string(s.recent_pages);
}

inline constexpr std::int64_t kTestLayer = 1;  // of two

// Strides with gaps that hold no tile, so that a wrong one is seen.
inline KvPageLayout page_layout(const CacheShape& s, KvFormat keys, KvFormat values) {
  const std::int64_t key_bytes = info(keys).tile_bytes(s.key_order, s.key_dim) + 16;
  const std::int64_t value_bytes = info(values).tile_bytes(KvOrder::rows, s.value_dim) + 48;
  const std::int64_t layer = s.kv_heads * (key_bytes + value_bytes) + 32;
  KvPageLayout layout{};
  layout.keys = {keys, s.key_order, s.key_dim, 64, layer, key_bytes};
  layout.values = {values, KvOrder::rows, s.value_dim, 64 + s.kv_heads * key_bytes, layer, value_bytes};
  layout.bytes = 64 + 2 * layer;
  layout.latent = s.latent;
  return layout;
}

inline KvGroupLayout group_layout(const CacheShape& s) {
  return {2,
          s.kv_heads,
          page_layout(s, open_format(s.keys), open_format(s.values)),
          page_layout(s, s.keys, s.values),
          info(s.keys).by_token && info(s.values).by_token,
          s.sink_pages,
          s.recent_pages,
          s.visible};
}

class TestSequence {
 public:
  // Pages whole in `shared` are taken from there. Tokens below `first_position` are gone.
  TestSequence(const CacheShape& s, std::int64_t length, unsigned seed, std::int64_t kept = 0,
               std::int64_t first_position = 0, const TestSequence* shared = nullptr, std::int64_t shared_tokens = 0)
      : group_(group_layout(s)), seed_(seed), first_position_(first_position), kept_(kept) {
    for (std::int64_t i = 0; i * kPageTokens < length; ++i) {
      const std::int64_t tokens = std::min(kPageTokens, length - i * kPageTokens);
      if (i * kPageTokens < first_position) {
        entries_.emplace_back();
      } else if (shared != nullptr && (i + 1) * kPageTokens <= shared_tokens) {
        entries_.push_back(shared->entries_[static_cast<std::size_t>(i)]);
      } else {
        const bool sealed = !group_.lossless && i >= s.sink_pages && tokens == kPageTokens;
        entries_.push_back({new_page(group_.wide, i, tokens), sealed ? new_page(group_.packed, i, tokens) : nullptr});
      }
    }
    const KvPageLayout& layout = group_.lossless ? group_.wide : group_.packed;
    for (std::int64_t i = 0; i * kPageTokens < kept; ++i) {
      kept_pages_.push_back(new_page(layout, 1000 + i, std::min(kPageTokens, kept - i * kPageTokens)));
    }
  }

  const KvGroupLayout& group() const { return group_; }
  KvTable table() const { return {entries_.data(), kept_pages_.data(), kept_, first_position_, group_.visible}; }
  std::vector<KvTableEntry>& entries() { return entries_; }

  // Forgets what no query from position `next` on may read.
  void release(std::int64_t next) {
    for (std::int64_t i = 0; i < next / kPageTokens; ++i) {
      KvTableEntry& entry = entries_[static_cast<std::size_t>(i)];
      if (!group_.reads_wide(i, next / kPageTokens)) entry.wide = nullptr;
      const bool sinks = i * kPageTokens < group_.visible.sinks;
      if (!sinks && (i + 1) * kPageTokens <= group_.visible.first(next)) entry = {};
    }
  }

 private:
  // The same values for the same page, however it is laid out.
  std::vector<float> rows(std::int64_t page, std::int64_t head, std::int64_t dim, unsigned stream,
                          std::int64_t tokens) const {
    static const std::vector<float> kNormal = random_floats(1 << 16, 42);
    std::vector<float> x(static_cast<std::size_t>(kPageTokens * dim), NAN);
    std::mt19937 generator(seed_ * 7919u + static_cast<unsigned>(page * 64 + head) * 2u + stream);
    for (std::int64_t i = 0; i < tokens * dim; ++i)
      x[static_cast<std::size_t>(i)] = kNormal[generator() % kNormal.size()];
    return x;
  }
  std::byte* new_page(const KvPageLayout& layout, std::int64_t page, std::int64_t tokens) {
    pages_.push_back(std::make_unique<std::byte[]>(static_cast<std::size_t>(layout.bytes)));
    std::byte* at = pages_.back().get();
    std::memset(at, 0xFF, static_cast<std::size_t>(layout.bytes));
    for (std::int64_t h = 0; h < group_.kv_heads; ++h) {
      write(layout.keys, at, page, h, 0, tokens);
      write(layout.values, at, page, h, 1, tokens);
    }
    return at;
  }
  void write(const KvStreamLayout& stream, std::byte* page, std::int64_t number, std::int64_t head, unsigned which,
             std::int64_t tokens) const {
    auto x = rows(number, head, stream.dim, which, tokens);
    // Keys with a scale per dimension cannot hold a NaN without all being NaN.
    const bool by_dimension = kv_has_zeros(stream.format) && stream.order == KvOrder::lanes;
    if (by_dimension) std::fill(x.begin() + tokens * stream.dim, x.end(), 0.f);
    info(stream.format).encode(stream.order, x.data(), stream.dim, stream.tile(page, kTestLayer, head));
  }

  KvGroupLayout group_;
  unsigned seed_;
  std::int64_t first_position_, kept_;
  std::vector<std::unique_ptr<std::byte[]>> pages_;
  std::vector<KvTableEntry> entries_;
  std::vector<const std::byte*> kept_pages_;
};

// Every backend whose attention is its own.
inline std::vector<const Ops*> attention_ops() {
  auto all = fast_ops();
  if (multiplies_bf16()) all.push_back(&bf16_ops());
  return all;
}

struct AttentionResult {
  std::vector<float> out, log_sum_exp;

  bool operator==(const AttentionResult& other) const {
    return same_bits(out, other.out) && same_bits(log_sum_exp, other.log_sum_exp);
  }
  static bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }
};

// q, q_sinks: [rows of all sequences, q_heads, query_dim]
inline AttentionResult attend(const Ops& ops, const CacheShape& s, std::span<const KvRows> sequences, ThreadPool& pool,
                              const std::vector<float>& q, const std::vector<float>& q_sinks, float softcap = 0) {
  std::int64_t rows = 0;
  for (const KvRows& r : sequences) rows += r.rows;
  AttentionResult result{std::vector<float>(static_cast<std::size_t>(rows * s.q_heads * s.value_dim), NAN),
                         std::vector<float>(static_cast<std::size_t>(rows * s.q_heads), NAN)};
  const KvGroupLayout group = group_layout(s);
  const float scale = 1.f / std::sqrt(static_cast<float>(s.query_dim()));
  ops.attention({q.data(),
                 s.visible.sinks > 0 ? q_sinks.data() : nullptr,
                 result.out.data(),
                 {&group, kTestLayer, sequences},
                 s.q_heads,
                 scale,
                 softcap,
                 result.log_sum_exp.data()},
                pool);
  return result;
}

}  // namespace quire::testing_support
