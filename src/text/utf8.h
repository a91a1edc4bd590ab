// UTF-8: strict where text leaves us, lenient where it comes in.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quire {

inline constexpr char32_t kReplacement = 0xFFFD;

struct Utf8Char {
  enum class Kind { valid, invalid, incomplete };
  Kind kind;
  // valid: of the character; invalid: of the bytes that one U+FFFD stands for;
  // incomplete: all of the text, which more bytes could turn into a character.
  std::size_t length;
};

// How non-empty text begins, by RFC 3629: no overlong forms, no surrogates, at most U+10FFFF.
Utf8Char first_char(std::string_view text);

bool is_valid_utf8(std::string_view text);

void append_utf8(std::string& out, char32_t code_point);

// A character as llama.cpp reads it: overlong forms and surrogates count, any other byte that
// makes no character is U+FFFD on its own.
struct LenientChar {
  char32_t code_point;
  std::size_t length;
};
LenientChar first_char_lenient(std::string_view text);

// Bytes in pieces of any size in, valid UTF-8 out; a character waits until all of it is there.
class Utf8Stream {
 public:
  std::string push(std::string_view bytes);
  std::string flush();  // what still waits can no longer become a character

 private:
  std::string pending_;
};

}  // namespace quire
