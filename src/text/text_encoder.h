// What the kinds of tokenizer have in common: text without special tokens in, ids out.
#pragma once

#include <string_view>
#include <vector>

#include "core/ids.h"
#include "text/pair_merger.h"
#include "text/word_cache.h"

namespace quire {

class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  // What the parts of one text share.
  struct Work {
    std::vector<TokenId> ids;  // encode() appends to it
    WordCache words;
    PairMerger merger;
  };

  // starts_anew: nothing, or a special token, is before the text. Thread-safe.
  virtual void encode(std::string_view text, bool starts_anew, Work& work) const = 0;
};

}  // namespace quire
