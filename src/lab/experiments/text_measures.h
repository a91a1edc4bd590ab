// What can be said of a generated text by counting.
#pragma once

#include <string>
#include <string_view>

namespace quire::lab {

// Of the runs of three words, the part that was there before: 0 where nothing repeats.
double repetition(std::string_view text);

// Of the words of five letters and more, the part that the beginning has too.
double topic_overlap(std::string_view beginning, std::string_view text);

// Of the lines of code, the part whose brackets and quotes close and whose names `beginning` or an earlier line has.
// The last line, which may be cut off, does not count.
double valid_lines(std::string_view beginning, std::string_view code);

// A made-up program: functions that call earlier ones, at least so many characters; ends where another begins.
std::string made_code(std::size_t characters, unsigned seed);

}  // namespace quire::lab
