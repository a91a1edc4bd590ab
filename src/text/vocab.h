// What a model file says about its vocabulary. Where the file is silent the optionals are empty,
// and Tokenizer::create applies what the kind of tokenizer implies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.h"
#include "quire/result.h"

namespace quire {

class Gguf;

enum class TokenType : std::uint8_t { normal = 1, unknown, control, user_defined, unused, byte };  // GGUF's numbers

struct Vocab {
  std::string model;  // "gpt2" (byte-level BPE) or "llama" (SentencePiece)
  std::string pre;    // how byte-level BPE cuts text into words; "" is "default"

  std::vector<std::string> tokens;
  std::vector<float> scores;     // [tokens], or empty: all equal
  std::vector<TokenType> types;  // [tokens], or empty: all normal
  std::vector<std::string> merges;

  std::optional<TokenId> bos, eos, eot, unk;
  std::vector<TokenId> extra_eog;  // further tokens that end a generation

  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

// Reads the tokenizer.ggml.* keys; it checks their types, Tokenizer::create checks their sense.
Result<Vocab> read_vocab(const Gguf& file);

}  // namespace quire
