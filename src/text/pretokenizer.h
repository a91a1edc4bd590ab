// The first step of byte-level BPE: text is cut into words, and merges never cross a cut. Which
// cuts is part of a trained vocabulary; a model file names them ("tokenizer.ggml.pre").
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "quire/result.h"

namespace quire {

struct PretokenizerTraits {
  bool whole_words_first;  // a word that is a token is that token, whatever the merges say
  bool adds_bos;           // unless the model file says otherwise
};

class Pretokenizer {
 public:
  static Result<Pretokenizer> create(std::string_view name);
  Pretokenizer(Pretokenizer&&) noexcept;
  Pretokenizer& operator=(Pretokenizer&&) noexcept;
  ~Pretokenizer();

  // Calls word(begin, end) for consecutive ranges that cover the text. The text must be valid
  // UTF-8. Thread-safe.
  using Word = std::function<void(std::size_t begin, std::size_t end)>;
  void split(std::string_view text, const Word& word) const;

  PretokenizerTraits traits() const { return traits_; }

 private:
  class Pattern;
  class Splitter;
  explicit Pretokenizer(PretokenizerTraits traits);

  PretokenizerTraits traits_;
  std::vector<Pattern> patterns_;  // each cuts what the one before it left
};

}  // namespace quire
