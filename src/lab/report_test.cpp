#include "lab/report.h"

#include <gtest/gtest.h>

namespace quire::lab {
namespace {

TEST(Report, IsOneFileThatNothingCanBreakOutOf) {
  const nlohmann::ordered_json results{{"conditions", {{"model", "</script><script>alert(1)</script> /*CHARTS*/"}}},
                                       {"experiments", nlohmann::ordered_json::array()}};
  const std::string page = report_html(results, "const drawing = '/*RESULTS*/ /*STYLE*/';");
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_NE(page.find("\\u003c/script>\\u003cscript>alert(1)"), std::string::npos);
  EXPECT_NE(page.find("const drawing"), std::string::npos);
  EXPECT_NE(page.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_NE(page.find("@media print"), std::string::npos);
  for (const char* reference : {"src=", "<link", "@import", "url("}) {
    EXPECT_EQ(page.find(reference), std::string::npos) << reference << ": the page must need nothing from elsewhere";
  }
}

}  // namespace
}  // namespace quire::lab
