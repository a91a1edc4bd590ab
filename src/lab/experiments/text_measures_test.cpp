#include "lab/experiments/text_measures.h"

#include <gtest/gtest.h>

namespace quire::lab {
namespace {

TEST(TextMeasures, Repetition) {
  EXPECT_EQ(repetition(""), 0);
  EXPECT_EQ(repetition("one two three four five"), 0);
  EXPECT_DOUBLE_EQ(repetition("a b c a b c a b c"), 4.0 / 7);  // abc bca cab | abc bca cab abc
  EXPECT_GT(repetition("again and again and again and again"), 0.5);
}

TEST(TextMeasures, TopicOverlap) {
  EXPECT_EQ(topic_overlap("harbour lantern", "the old sea"), 0) << "short words say nothing";
  EXPECT_DOUBLE_EQ(topic_overlap("the harbour and the lantern", "harbour, lantern; orchard violin"), 0.5);
}

TEST(TextMeasures, ValidLines) {
  const char* const begun = "def load(rows):\n    result = []\n";
  EXPECT_EQ(valid_lines(begun, "    result = load(rows)\n"), 1);
  EXPECT_EQ(valid_lines(begun, "    result = load(rows\n"), 0) << "an open bracket";
  EXPECT_EQ(valid_lines(begun, "    result = load(rows]\n"), 0) << "the wrong bracket";
  EXPECT_EQ(valid_lines(begun, "    result = missing(rows)\n"), 0) << "a name nobody defined";
  EXPECT_EQ(valid_lines(begun, "    total = 3\n    result = load(total)\n"), 1) << "an earlier line defines it";
  EXPECT_EQ(valid_lines(begun, "def other(things):\n"), 1);
  EXPECT_EQ(valid_lines(begun, "    result = load(ro"), 0) << "cut off: nothing to count";
  EXPECT_EQ(valid_lines(begun, "    result = load(\"a ) b\")\n"), 0) << "words in quotes count as names";
}

TEST(TextMeasures, MadeCodeIsValid) {
  const std::string code = made_code(2000, 1);
  EXPECT_GE(code.size(), 2000u);
  EXPECT_EQ(code, made_code(2000, 1));
  EXPECT_NE(code, made_code(2000, 2));
  EXPECT_EQ(valid_lines("def return in for item result append", code), 1);
}

}  // namespace
}  // namespace quire::lab
