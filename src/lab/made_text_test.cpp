#include "lab/made_text.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace quire::lab {
namespace {

TEST(MadeText, IsTheSameEveryTimeAndLongEnough) {
  const std::string text = made_text(20'000);
  EXPECT_GE(text.size(), 20'000u);
  EXPECT_EQ(text, made_text(20'000));
  EXPECT_TRUE(made_text(40'000).starts_with(text.substr(0, 20'000)));
  EXPECT_NE(text, made_text(20'000, 2));
  EXPECT_EQ(text.find_first_of("{}"), std::string::npos) << "every slot is filled";
}

TEST(MadeText, DoesNotRepeatItself) {
  std::istringstream lines(made_text(50'000));
  std::multiset<std::string> paragraphs;
  for (std::string line; std::getline(lines, line);) {
    if (line.size() > 80) paragraphs.insert(line);
  }
  ASSERT_GT(paragraphs.size(), 50u);
  for (const std::string& p : paragraphs) EXPECT_EQ(paragraphs.count(p), 1u);
}

}  // namespace
}  // namespace quire::lab
