// Byte-level BPE (GPT-2, Llama 3, Qwen, SmolLM): text is cut into words by a pre-tokenizer, each
// word starts as its bytes, and neighbours merge in the order in which training found the merges.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/ids.h"
#include "quire/result.h"
#include "text/pair_merger.h"
#include "text/pretokenizer.h"
#include "text/text_encoder.h"
#include "text/vocab.h"

namespace quire {

// Vocabularies of this kind spell each byte as one printable character: "A" is itself, a space is
// U+0120. Characters that spell no byte stay as they are.
std::string bytes_from_alphabet(std::string_view spelled);
std::string alphabet_from_bytes(std::string_view bytes);

class Bpe final : public TextEncoder {
 public:
  // The vocabulary's tokens must differ from each other.
  static Result<std::unique_ptr<Bpe>> create(const Vocab& vocab, Pretokenizer pretokenizer);

  void encode(std::string_view text, bool starts_anew, Work& work) const override;

 private:
  // Symbols are the tokens, by their ids, and after them whatever else bytes and merges spell: a
  // merge may lead through something that is no token.
  using SymbolId = std::uint32_t;

  Bpe(const Vocab& vocab, Pretokenizer pretokenizer);
  SymbolId intern(std::string spelled);
  bool is_token(SymbolId symbol) const { return symbol < token_count_; }
  void encode_word(std::string_view word, Work& work) const;

  Pretokenizer pretokenizer_;
  std::size_t token_count_;
  std::unordered_map<std::string, SymbolId> symbols_;  // by spelling
  std::array<SymbolId, 256> byte_symbols_{};
  std::unordered_map<std::uint64_t, PairMerger::Merge> merges_;  // by left << 32 | right
};

}  // namespace quire
