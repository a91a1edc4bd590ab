// Text to tokens and back, as a model file's vocabulary has it. The reference is llama.cpp: the
// same text gives the same ids.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.h"
#include "quire/result.h"
#include "text/vocab.h"

namespace quire {

// Const methods are thread-safe.
class Tokenizer {
 public:
  static Result<Tokenizer> create(Vocab vocab);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  enum class Special { as_text, parse };  // whether "<|im_start|>" in the text becomes its token

  // add_special: put BOS in front and EOS behind where the vocabulary asks for them.
  std::vector<TokenId> encode(std::string_view text, bool add_special, Special special) const;

  // Text from somebody who must not speak for the model: with `guard` inside whatever encode() would parse as a control
  // token. A token of a single character cannot be guarded; no vocabulary is known to have one.
  std::string guarded(std::string_view text, std::string_view guard) const;
  // As encode() without add_special and with Special::parse; guards leave no trace but that what they are in is text.
  std::vector<TokenId> encode_guarded(std::string_view text, std::string_view guard) const;

  // The text of tokens; control tokens have none. It may end in half a character: see StreamDecoder.
  std::string decode(std::span<const TokenId> tokens) const;

  // A token on its own, control tokens by their names. Nothing for an id that is no token. The
  // view lives as long as the tokenizer.
  std::string_view piece(TokenId token) const;

  bool is_special(TokenId token) const;  // has no text: control, unknown, or no token at all
  bool is_end_of_generation(TokenId token) const;

  // The token spelled exactly so in the vocabulary.
  std::optional<TokenId> find(std::string_view spelled) const;

  std::size_t size() const;
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  std::optional<TokenId> eot() const;
  bool adds_bos() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);

  std::unique_ptr<const State> state_;
};

}  // namespace quire
