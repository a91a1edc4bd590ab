// A text to measure on where nobody gives one: a chronicle of a town, drawn sentence by sentence from a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace quire::lab {

// At least so many characters; the same for the same seed, everywhere.
std::string made_text(std::size_t characters, std::uint64_t seed = 1);

}  // namespace quire::lab
