#include "text/jinja_text.h"

#include <algorithm>

namespace quire::jinja {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; }

// Pairs of neighbouring code points in which one is the capital of the other.
bool alternating_even_upper(char32_t c) {
  return (c >= 0x100 && c <= 0x12F) || (c >= 0x132 && c <= 0x137) || (c >= 0x14A && c <= 0x177) ||
         (c >= 0x460 && c <= 0x481) || (c >= 0x48A && c <= 0x4BF) || (c >= 0x4D0 && c <= 0x52F) ||
         (c >= 0x1E00 && c <= 0x1E95) || (c >= 0x1EA0 && c <= 0x1EFF);
}
bool alternating_odd_upper(char32_t c) {
  return (c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17E) || (c >= 0x4C1 && c <= 0x4CE);
}

}  // namespace

char32_t next_code_point(std::string_view s, std::size_t& position) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(s[i])); };
  const char32_t first = byte(position);
  const auto lone = [&] {
    ++position;
    return 0xDC00 + first;
  };
  if (first < 0x80) {
    ++position;
    return first;
  }
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || s.size() - position < length) return lone();
  char32_t c = first & (0xFFu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(s[position + i])) return lone();
    c = (c << 6) | (byte(position + i) & 0x3Fu);
  }
  const bool overlong = (length == 3 && c < 0x800) || (length == 4 && c < 0x10000);
  if (overlong || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) return lone();
  position += length;
  return c;
}

void append_code_point(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (c < 0x80) {
    put(c);
  } else if (c >= 0xDC80 && c <= 0xDCFF) {
    put(c - 0xDC00);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::u32string decode(std::string_view s) {
  std::u32string out;
  out.reserve(s.size());
  for (std::size_t i = 0; i < s.size();) out.push_back(next_code_point(s, i));
  return out;
}

std::string encode(std::u32string_view s) {
  std::string out;
  out.reserve(s.size());
  for (const char32_t c : s) append_code_point(out, c);
  return out;
}

std::size_t code_point_count(std::string_view s) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < s.size(); ++count) next_code_point(s, i);
  return count;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

char32_t to_upper(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 0x20 : c;
  if (c == 0xB5) return 0x39C;
  if (c == 0xFF) return 0x178;
  if (c == 0x131) return 'I';
  if ((c >= 0xE0 && c <= 0xFE && c != 0xF7)) return c - 0x20;
  if (alternating_even_upper(c)) return c & ~char32_t{1};
  if (alternating_odd_upper(c)) return (c - 1) | 1;
  if (c == 0x3C2) return 0x3A3;
  if (c >= 0x3B1 && c <= 0x3CB) return c - 0x20;
  if (c == 0x3AC) return 0x386;
  if (c >= 0x3AD && c <= 0x3AF) return c - 0x25;
  if (c == 0x3CC) return 0x38C;
  if (c == 0x3CD || c == 0x3CE) return c - 0x3F;
  if (c >= 0x430 && c <= 0x44F) return c - 0x20;
  if (c >= 0x450 && c <= 0x45F) return c - 0x50;
  return c;
}

char32_t to_lower(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 0x20 : c;
  if (c == 0x178) return 0xFF;
  if (c >= 0xC0 && c <= 0xDE && c != 0xD7) return c + 0x20;
  if (c != 0x130 && alternating_even_upper(c)) return c | 1;
  if (alternating_odd_upper(c)) return c + (c & 1);
  if (c >= 0x391 && c <= 0x3AB && c != 0x3A2) return c + 0x20;
  if (c == 0x386) return 0x3AC;
  if (c >= 0x388 && c <= 0x38A) return c + 0x25;
  if (c == 0x38C) return 0x3CC;
  if (c == 0x38E || c == 0x38F) return c + 0x3F;
  if (c >= 0x410 && c <= 0x42F) return c + 0x20;
  if (c >= 0x400 && c <= 0x40F) return c + 0x50;
  return c;
}

bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_upper(char32_t c) { return to_lower(c) != c; }
bool is_lower(char32_t c) { return to_upper(c) != c || c == 0xDF; }

bool is_alpha(char32_t c) {
  if (c < 0x80) return to_lower(c) >= 'a' && to_lower(c) <= 'z';
  if (c == 0xAA || c == 0xB5 || c == 0xBA) return true;
  // The blocks of letters and ideographs, by their bounds: good enough to tell a word from a sign.
  return (c >= 0xC0 && c <= 0x2C1 && c != 0xD7 && c != 0xF7) ||
         (c >= 0x370 && c <= 0x481 && c != 0x37E && c != 0x387) || (c >= 0x48A && c <= 0x556) ||
         (c >= 0x5D0 && c <= 0x5EA) || (c >= 0x620 && c <= 0x64A) || (c >= 0x904 && c <= 0x939) ||
         (c >= 0x1E00 && c <= 0x1FBC) || (c >= 0x3041 && c <= 0x3096) || (c >= 0x30A1 && c <= 0x30FA) ||
         (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0xAC00 && c <= 0xD7A3) ||
         (c >= 0x20000 && c <= 0x323AF);
}

std::string upper(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  for (std::size_t i = 0; i < s.size();) {
    const char32_t c = next_code_point(s, i);
    if (c == 0xDF) {
      out += "SS";
    } else {
      append_code_point(out, to_upper(c));
    }
  }
  return out;
}

std::string lower(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  for (std::size_t i = 0; i < s.size();) append_code_point(out, to_lower(next_code_point(s, i)));
  return out;
}

std::string_view strip_left(std::string_view s) {
  std::size_t start = 0;
  for (std::size_t i = 0; i < s.size(); start = i) {
    if (!is_space(next_code_point(s, i))) break;
  }
  return s.substr(start);
}

std::string_view strip_right(std::string_view s) {
  std::size_t end = s.size();
  while (end > 0) {
    std::size_t start = end - 1;
    while (start > 0 && end - start < 4 && is_continuation(s[start])) --start;
    std::size_t after = start;
    if (!is_space(next_code_point(s, after)) || after != end) break;
    end = start;
  }
  return s.substr(0, end);
}

namespace {

// Knuth, Morris and Pratt, over any pair of forward iterators' worth of characters.
template <class Haystack, class Needle>
std::size_t search_linear(const Haystack& haystack, const Needle& needle, std::size_t length,
                          std::size_t needle_length) {
  std::vector<std::size_t> border(needle_length, 0);
  for (std::size_t i = 1, matched = 0; i < needle_length; ++i) {
    while (matched > 0 && needle(i) != needle(matched)) matched = border[matched - 1];
    if (needle(i) == needle(matched)) ++matched;
    border[i] = matched;
  }
  for (std::size_t i = 0, matched = 0; i < length; ++i) {
    while (matched > 0 && haystack(i) != needle(matched)) matched = border[matched - 1];
    if (haystack(i) == needle(matched)) ++matched;
    if (matched == needle_length) return i + 1 - needle_length;
  }
  return std::string_view::npos;
}

// Below this length the library's quadratic search costs at most a constant per byte.
constexpr std::size_t kShortNeedle = 16;

}  // namespace

std::size_t find_text(std::string_view haystack, std::string_view needle, std::size_t from) {
  if (needle.size() <= kShortNeedle) return haystack.find(needle, from);
  if (from > haystack.size() || needle.size() > haystack.size() - from) return std::string_view::npos;
  const std::size_t at = search_linear([&](std::size_t i) { return haystack[from + i]; },
                                       [&](std::size_t i) { return needle[i]; }, haystack.size() - from, needle.size());
  return at == std::string_view::npos ? at : from + at;
}

std::size_t find_last_text(std::string_view haystack, std::string_view needle) {
  if (needle.size() <= kShortNeedle) return haystack.rfind(needle);
  if (needle.size() > haystack.size()) return std::string_view::npos;
  const std::size_t at =
      search_linear([&](std::size_t i) { return haystack[haystack.size() - 1 - i]; },
                    [&](std::size_t i) { return needle[needle.size() - 1 - i]; }, haystack.size(), needle.size());
  return at == std::string_view::npos ? at : haystack.size() - at - needle.size();
}

std::vector<std::string_view> split_lines(std::string_view s, bool keep_ends) {
  std::vector<std::string_view> lines;
  std::size_t start = 0;
  for (std::size_t i = 0; i < s.size();) {
    const std::size_t end = i;
    const char32_t c = next_code_point(s, i);
    if (!is_line_break(c)) continue;
    if (c == '\r' && i < s.size() && s[i] == '\n') ++i;
    lines.push_back(s.substr(start, (keep_ends ? i : end) - start));
    start = i;
  }
  if (start < s.size()) lines.push_back(s.substr(start));
  return lines;
}

}  // namespace quire::jinja
