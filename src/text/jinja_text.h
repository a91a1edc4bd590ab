// Strings as Python sees them: sequences of code points. Bytes that are not UTF-8 become lone
// surrogates (U+DC80..U+DCFF) and come back as the same bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace quire::jinja {

// The code point at `position`, which advances past it.
char32_t next_code_point(std::string_view s, std::size_t& position);
void append_code_point(std::string& out, char32_t c);
std::u32string decode(std::string_view s);
std::string encode(std::u32string_view s);
std::size_t code_point_count(std::string_view s);

bool is_space(char32_t c);
bool is_line_break(char32_t c);
bool is_alpha(char32_t c);
bool is_digit(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
// One to one mappings of the Latin, Greek and Cyrillic letters; other letters stay as they are.
char32_t to_upper(char32_t c);
char32_t to_lower(char32_t c);

std::string upper(std::string_view s);
std::string lower(std::string_view s);

std::string_view strip_left(std::string_view s);
std::string_view strip_right(std::string_view s);

// Substring search in linear time, whatever the strings: npos if there is none.
std::size_t find_text(std::string_view haystack, std::string_view needle, std::size_t from = 0);
std::size_t find_last_text(std::string_view haystack, std::string_view needle);

std::vector<std::string_view> split_lines(std::string_view s, bool keep_ends);

}  // namespace quire::jinja
