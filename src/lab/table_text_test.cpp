#include "lab/table_text.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(ParseSize, GiBAndGBAreToldApart) {
  EXPECT_EQ(*parse_size("400GiB"), 400ull << 30);
  EXPECT_EQ(*parse_size("400G"), 400ull << 30);
  EXPECT_EQ(*parse_size("400gb"), 400'000'000'000ull);
  EXPECT_EQ(*parse_size("1.5 MiB"), 1'572'864u);
  EXPECT_EQ(*parse_size("2k"), 2048u);
  EXPECT_EQ(*parse_size("2TB"), 2'000'000'000'000u);
  EXPECT_EQ(*parse_size("17"), 17u);
  EXPECT_EQ(*parse_size("17B"), 17u);
}

TEST(ParseSize, OtherTextsAreRefused) {
  for (const char* text : {"", "G", "-1G", "80X", "80Gi", "80GBs", "8e30", "1e400", "nan", "inf", "80G B", "0x10"}) {
    const auto size = parse_size(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_NE(size.error().message.find("80GiB"), std::string::npos) << "says what to write";
  }
}

TEST(ParseTable, CommentsAndEmptyLinesCount) {
  const auto rows = parse_table("# head\n\n a  1\tthe rest of it \r\nb 2 x#y", "f", 3);
  ASSERT_TRUE(rows.ok());
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].line, 3);
  EXPECT_EQ((*rows)[0].fields[2], "the rest of it");
  EXPECT_EQ((*rows)[1].line, 4);
  EXPECT_EQ((*rows)[1].fields[2], "x");
}

TEST(ParseTable, NumbersOutOfRangeAreNamed) {
  const auto rows = parse_table("a 12 \x1b[31m", "f", 3);
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(*rows->front().integer(1, "layers", 1, 12), 12);
  EXPECT_EQ(rows->front().integer(1, "layers", 1, 11).error().message,
            "f, line 1: layers is '12'; expected a whole number from 1 to 11");
  EXPECT_EQ(rows->front().integer(2, "heads", 1, 9).error().message.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace quire
