#include "lab/report.h"

#include "core/check.h"
#include "lab/embedded.h"

namespace quire::lab {
namespace {

// Inside a script element nothing may look like its end.
std::string for_script(std::string text) {
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos;) text.replace(at, 1, "\\u003c");
  return text;
}

void put(std::string& page, std::string_view place, std::string_view content) {
  const std::size_t at = page.find(place);
  QUIRE_ASSERT(at != std::string::npos, "a place the page's template lacks");
  page.replace(at, place.size(), content);
}

}  // namespace

std::string report_html(const nlohmann::ordered_json& results, std::string_view chart_js) {
  std::string page(embedded_report_page());
  // Last first: what is put in may contain anything.
  put(page, "/*SCRIPT*/", embedded_report_script());
  put(page, "/*RESULTS*/", for_script(results.dump()));
  put(page, "/*CHARTS*/", chart_js);
  put(page, "/*STYLE*/", embedded_report_style());
  return page;
}

}  // namespace quire::lab
