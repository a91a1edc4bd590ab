// What every byte of a cache should be, from the tokens alone. Keys and values are small integers, exact
// in every 16-bit format, that depend on the owner's salt, on every token so far, on what of them could be
// seen, on the position and on the place: whatever is shared, copied, ordered or placed wrongly has the wrong numbers.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/ids.h"
#include "kv/hadamard.h"
#include "kv/layout.h"

namespace quire::property {

using Hash = std::uint64_t;
using Bytes = std::vector<std::byte>;
using Floats = std::vector<float>;

inline constexpr std::byte kPoison{0xFF};  // what nobody wrote

inline std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

inline Hash mix(Hash x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Tokens, and for each the hash of all up to it.
class History {
 public:
  // From position `changed_from` on, what is computed depends on `policy` too.
  History(Hash salt, Hash policy, std::int64_t changed_from)
      : salt_(salt), policy_(policy), changed_from_(changed_from) {}

  void push(TokenId token) {
    Hash hash = (hashes_.empty() ? mix(salt_ + 1) : hashes_.back()) * 31 + static_cast<Hash>(token) + 1;
    if (length() >= changed_from_) hash += mix(policy_);
    hashes_.push_back(mix(hash));
    tokens_.push_back(token);
  }
  void push(std::span<const TokenId> tokens) {
    for (const TokenId token : tokens) push(token);
  }
  void truncate(std::int64_t length) {
    tokens_.resize(index(length));
    hashes_.resize(index(length));
  }

  Hash salt() const { return salt_; }
  std::int64_t changed_from() const { return changed_from_; }
  std::int64_t length() const { return std::ssize(tokens_); }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  Hash hash(std::int64_t position) const { return hashes_[index(position)]; }
  std::span<const Hash> page(std::int64_t page) const {
    return std::span(hashes_).subspan(index(page * kPageTokens), index(kPageTokens));
  }

 private:
  Hash salt_, policy_;
  std::int64_t changed_from_;
  std::vector<TokenId> tokens_;
  std::vector<Hash> hashes_;
};

enum class Stream { keys, values };

inline const KvStreamLayout& stream_of(const KvPageLayout& page, Stream stream) {
  return stream == Stream::keys ? page.keys : page.values;
}

// One token's keys or values in one head, as a model would compute them. [dim]
inline void computed_row(Hash prefix, std::int64_t group, std::int64_t layer, std::int64_t head, Stream stream,
                         std::int64_t dim, float* row) {
  const auto place = static_cast<Hash>(((group * 64 + layer) * 64 + head) * 2 + (stream == Stream::keys));
  Hash bits = 0;
  for (std::int64_t d = 0; d < dim; ++d, bits >>= 8) {
    if (d % 8 == 0) bits = mix(prefix + (place * 1024 + static_cast<Hash>(d)) * 0x9E3779B97F4A7C15u);
    row[d] = static_cast<float>(bits & 127) - 64;
  }
}

// The same as the cache keeps it, or, applied to that, as it was.
inline void turn(const KvGroupLayout& layout, Stream stream, std::int64_t dim, float* row) {
  if (info(stream_of(layout.packed, stream).format).rotated) hadamard(row, dim);
}

// The bytes of full pages. Encoding is slow, so they are kept for a while.
class PageBytes {
 public:
  explicit PageBytes(std::span<const KvGroupLayout> layouts) : layouts_(layouts.begin(), layouts.end()) {}

  // hashes: [32], of the page's tokens
  const Bytes& wide(std::int64_t group, std::span<const Hash> hashes) {
    Bytes& bytes = find(group, 0, hashes.back());
    if (!bytes.empty()) return bytes;
    const KvGroupLayout& layout = layouts_[index(group)];
    bytes.resize(index(layout.wide.bytes), kPoison);
    for_each_tile(layout, [&](std::int64_t layer, std::int64_t head, Stream s) {
      const KvStreamLayout& stream = stream_of(layout.wide, s);
      Floats row(index(stream.dim));
      for (std::int64_t t = 0; t < kPageTokens; ++t) {
        computed_row(hashes[index(t)], group, layer, head, s, stream.dim, row.data());
        turn(layout, s, stream.dim, row.data());
        write_token(stream.format, stream.order, stream.tile(bytes.data(), layer, head), t, row.data(), stream.dim);
      }
    });
    return bytes;
  }
  const Bytes& packed(std::int64_t group, std::span<const Hash> hashes) {
    const Bytes& from = wide(group, hashes);
    Bytes& bytes = find(group, 1, hashes.back());
    if (!bytes.empty()) return bytes;
    const KvGroupLayout& layout = layouts_[index(group)];
    bytes.resize(index(layout.packed.bytes), kPoison);
    for_each_tile(layout, [&](std::int64_t layer, std::int64_t head, Stream s) {
      encode(layout.packed, layer, head, s, decode(layout.wide, from.data(), layer, head, s), bytes.data());
    });
    return bytes;
  }

  template <class Visit>
  static void for_each_tile(const KvGroupLayout& layout, Visit&& visit) {
    for (std::int64_t layer = 0; layer < layout.layers; ++layer) {
      for (std::int64_t head = 0; head < layout.kv_heads; ++head) {
        visit(layer, head, Stream::keys);
        visit(layer, head, Stream::values);
      }
    }
  }
  // [32, dim], as stored
  static Floats decode(const KvPageLayout& page, const std::byte* bytes, std::int64_t layer, std::int64_t head,
                       Stream s) {
    const KvStreamLayout& stream = stream_of(page, s);
    Floats rows(index(kPageTokens * stream.dim));
    info(stream.format).decode(stream.order, stream.tile(bytes, layer, head), stream.dim, rows.data());
    return rows;
  }
  static void encode(const KvPageLayout& page, std::int64_t layer, std::int64_t head, Stream s, const Floats& rows,
                     std::byte* bytes) {
    const KvStreamLayout& stream = stream_of(page, s);
    info(stream.format).encode(stream.order, rows.data(), stream.dim, stream.tile(bytes, layer, head));
  }

  // Between two uses, never while a reference from above is held.
  void limit_size() {
    constexpr std::size_t kMostPages = 8192;
    if (pages_.size() > kMostPages) pages_.clear();
  }

 private:
  Bytes& find(std::int64_t group, Hash kind, Hash last) {
    return pages_[mix(last) + static_cast<Hash>(group) * 2 + kind];
  }

  std::vector<KvGroupLayout> layouts_;
  std::unordered_map<Hash, Bytes> pages_;
};

}  // namespace quire::property
