// Sets of Unicode characters, and the byte sequences that spell them in UTF-8.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire::grammar {

inline constexpr char32_t kLastCodePoint = 0x10FFFF;

struct CodePointRange {
  char32_t first, last;
};

class CodePointSet {
 public:
  CodePointSet() = default;
  CodePointSet(std::initializer_list<CodePointRange> ranges);

  void add(char32_t first, char32_t last);
  void add(const CodePointSet& other);
  CodePointSet complement() const;
  CodePointSet without(const CodePointSet& other) const;

  bool empty() const { return ranges_.empty(); }
  bool contains(char32_t c) const;
  const std::vector<CodePointRange>& ranges() const { return ranges_; }  // sorted, apart from each other

 private:
  std::vector<CodePointRange> ranges_;
};

struct DecodedChar {
  char32_t code_point;
  std::size_t length;
};

// The first character of a text; nothing where it is not UTF-8.
std::optional<DecodedChar> decode_char(std::string_view text);
std::string encode_char(char32_t c);

struct ByteRange {
  std::uint8_t first, last;
  bool operator==(const ByteRange&) const = default;
};

// All strings whose i-th byte lies in bytes[i].
struct Utf8Sequence {
  std::array<ByteRange, 4> bytes;
  std::size_t length;
};

// Surrogates have no UTF-8 and are left out.
std::vector<Utf8Sequence> utf8_sequences(const CodePointSet& set);

}  // namespace quire::grammar
