// Generated tokens to text, as they come. A token may end in the middle of a character: that
// part waits for the next token, so what comes out is always valid UTF-8.
#pragma once

#include <string>

#include "core/ids.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace quire {

class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}  // which must outlive it

  // Control tokens have no text, as in Tokenizer::decode.
  std::string push(TokenId token) {
    return tokenizer_->is_special(token) ? std::string() : stream_.push(tokenizer_->piece(token));
  }
  std::string flush() { return stream_.flush(); }

 private:
  const Tokenizer* tokenizer_;
  Utf8Stream stream_;
};

}  // namespace quire
