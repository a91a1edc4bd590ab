// report.html: one file to read, offline and in print, drawn from what results.json says.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace quire::lab {

// chart_js: the source of Chart.js, which draws. Who embeds it brings it.
std::string report_html(const nlohmann::ordered_json& results, std::string_view chart_js);

}  // namespace quire::lab
