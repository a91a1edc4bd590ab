#pragma once

#include <string>

namespace quire::server {

std::string random_id(std::string prefix);  // nobody guesses it

}  // namespace quire::server
