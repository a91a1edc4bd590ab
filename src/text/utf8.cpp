#include "text/utf8.h"

#include <cstdint>
#include <cstring>

namespace quire {
namespace {

std::uint8_t byte_at(std::string_view text, std::size_t i) { return static_cast<std::uint8_t>(text[i]); }
bool is_continuation(std::uint8_t byte) { return (byte & 0xC0) == 0x80; }

// How long a character is by its first byte alone; 1 where that byte cannot begin one.
std::size_t length_by_lead(std::uint8_t lead) {
  if (lead >= 0xC0 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF8) return 4;
  return 1;
}

}  // namespace

Utf8Char first_char(std::string_view text) {
  const std::uint8_t lead = byte_at(text, 0);
  if (lead < 0x80) return {Utf8Char::Kind::valid, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Char::Kind::invalid, 1};

  // Overlong forms, surrogates and too large numbers all show in the second byte.
  std::uint8_t low = 0x80, high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;

  const std::size_t length = length_by_lead(lead);
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Utf8Char::Kind::incomplete, i};
    if (byte_at(text, i) < low || byte_at(text, i) > high) return {Utf8Char::Kind::invalid, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Char::Kind::valid, length};
}

bool is_valid_utf8(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  while (!text.empty()) {
    std::uint64_t eight;
    if (text.size() >= sizeof eight) {
      std::memcpy(&eight, text.data(), sizeof eight);
      if ((eight & kHighBits) == 0) {
        text.remove_prefix(sizeof eight);
        continue;
      }
    }
    const Utf8Char c = first_char(text);
    if (c.kind != Utf8Char::Kind::valid) return false;
    text.remove_prefix(c.length);
  }
  return true;
}

void append_utf8(std::string& out, char32_t c) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

LenientChar first_char_lenient(std::string_view text) {
  const std::uint8_t lead = byte_at(text, 0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = length_by_lead(lead);
  if (length == 1 || length > text.size()) return {kReplacement, 1};

  char32_t code_point = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(byte_at(text, i))) return {kReplacement, 1};
    code_point = (code_point << 6) | (byte_at(text, i) & 0x3Fu);
  }
  if (code_point > 0x10FFFF) return {kReplacement, 1};
  return {code_point, length};
}

std::string Utf8Stream::push(std::string_view bytes) {
  pending_ += bytes;
  std::string out;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const Utf8Char c = first_char(rest);
    if (c.kind == Utf8Char::Kind::incomplete) break;
    if (c.kind == Utf8Char::Kind::valid) {
      out += rest.substr(0, c.length);
    } else {
      append_utf8(out, kReplacement);
    }
    rest.remove_prefix(c.length);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return out;
}

std::string Utf8Stream::flush() {
  std::string out;
  if (!pending_.empty()) append_utf8(out, kReplacement);
  pending_.clear();
  return out;
}

}  // namespace quire
