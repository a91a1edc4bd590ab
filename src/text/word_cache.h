// Words repeat. What a word became earlier in the same text is copied from there instead of being
// worked out again.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/ids.h"

namespace quire {

class WordCache {
 public:
  // Appends the word's ids to out: from the cache, or by calling encode(word). Only for words of
  // one text, of which out only grows.
  template <class Encode>
  void append(std::string_view word, std::vector<TokenId>& out, Encode&& encode) {
    if (word.size() > kMaxWord) return encode(word);
    if (const auto seen = ranges_.find(word); seen != ranges_.end()) {
      const auto [begin, end] = seen->second;
      for (std::size_t i = begin; i < end; ++i) out.push_back(out[i]);
      return;
    }
    const std::size_t begin = out.size();
    encode(word);
    if (ranges_.size() < kMaxWords) ranges_.emplace(std::string(word), std::pair(begin, out.size()));
  }

 private:
  static constexpr std::size_t kMaxWord = 32;        // bytes; longer ones seldom return
  static constexpr std::size_t kMaxWords = 1 << 16;  // x ~100 B = 6 MiB at most

  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, std::pair<std::size_t, std::size_t>, Hash, std::equal_to<>> ranges_;  // into out
};

}  // namespace quire
