// The tables in data/ and the files in report/, as they were when the program was built.
#pragma once

#include <string_view>

namespace quire {

std::string_view embedded_models();
std::string_view embedded_hardware();
std::string_view embedded_report_page();
std::string_view embedded_report_style();
std::string_view embedded_report_script();

}  // namespace quire
