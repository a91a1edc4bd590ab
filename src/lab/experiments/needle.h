// A fact hidden in a text, and a question for it at the end.
#pragma once

#include <string>

#include "lab/workbench.h"

namespace quire::lab {

struct Needle {
  Tokens prompt;
  std::string code;  // what an answer begins with
  int part = 0;      // of the text that the fact lies in, from 0

  bool answered_by(std::string_view text) const;
  // Whether more text can still change the answer to that.
  bool undecided(std::string_view text) const;
};

inline constexpr std::int64_t kNeedleAnswer = 6;  // tokens that hold the code

// About `length` tokens; the same for the same number, whose fact lies in part number % parts.
Needle plant_needle(const Workbench& bench, std::int64_t length, int parts, int number);

}  // namespace quire::lab
