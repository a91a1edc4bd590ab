// SHA-256, by OpenSSL: names that nobody can forge or hit by accident.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <span>
#include <unordered_map>

namespace quire {

using Digest = std::array<std::byte, 32>;

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  Hasher& update(std::span<const std::byte> bytes);
  // Little-endian, in the width of its type.
  template <std::integral T>
  Hasher& update(T value) {
    std::array<std::byte, sizeof(T)> bytes;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bytes[i] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xFF);
    }
    return update(std::span<const std::byte>(bytes));
  }

  // The digest of all updates since construction or the last finish; the hasher starts anew.
  Digest finish();

 private:
  void* context_;
};

// A digest is uniform already: any eight of its bytes make a hash table's key.
inline std::uint64_t first_word(const Digest& digest) {
  std::uint64_t word;
  std::memcpy(&word, digest.data(), sizeof(word));
  return word;
}

struct DigestHash {
  std::size_t operator()(const Digest& digest) const { return first_word(digest); }
};
// std::array's own comparison goes byte by byte.
struct DigestEqual {
  bool operator()(const Digest& a, const Digest& b) const { return std::memcmp(a.data(), b.data(), a.size()) == 0; }
};
template <class T>
using DigestMap = std::pmr::unordered_map<Digest, T, DigestHash, DigestEqual>;

}  // namespace quire
