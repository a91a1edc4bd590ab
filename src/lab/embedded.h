// The tables in data/, as they were when the program was built.
#pragma once

#include <string_view>

namespace quire {

std::string_view embedded_models();
std::string_view embedded_hardware();

}  // namespace quire
