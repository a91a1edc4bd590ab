#include "lab/hardware.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Hardware, TheBuiltInTable) {
  for (const char* name : {"a100", "h100", "h200", "b200", "epyc-9654", "cpu-2-cores"}) {
    EXPECT_TRUE(find_hardware(builtin_hardware(), name).ok()) << name;
  }
  const auto h200 = find_hardware(builtin_hardware(), "h200");
  EXPECT_EQ(h200->read_per_second, 4.8e12);
  EXPECT_EQ(h200->operations_per_second, 9.89e14);
  EXPECT_EQ(h200->memory_bytes, 141.0 * (1 << 30));
}

TEST(Hardware, TablesOfOnesOwn) {
  const auto parsed = parse_hardware("# mine\nbox 8 20 0.15 0 two cores, slow ones # really\n", "mine.txt");
  ASSERT_TRUE(parsed.ok());
  ASSERT_EQ(parsed->size(), 1u);
  EXPECT_EQ(parsed->front().description, "two cores, slow ones");
  EXPECT_EQ(parsed->front().dollars_per_hour, 0);
}

TEST(Hardware, BrokenTablesNameFileAndLine) {
  const auto message = [](std::string_view text) {
    const auto parsed = parse_hardware(text, "t.txt");
    return parsed.ok() ? std::string("taken") : parsed.error().message;
  };
  EXPECT_EQ(message(""), "t.txt: no hardware in it; expected a row such as 'h100 80 3350 989 2.50 NVIDIA H100'");
  EXPECT_NE(message("\n\nbox 8 20").find("t.txt, line 3: 3 columns; expected 6"), std::string::npos);
  EXPECT_NE(message("box 8 fast 1 1 x").find("line 1: read (GB/s) is 'fast'"), std::string::npos);
  EXPECT_NE(message("box -8 1 1 1 x").find("memory (GiB) is '-8'"), std::string::npos);
  EXPECT_NE(message("box nan 1 1 1 x").find("memory"), std::string::npos);
  EXPECT_NE(message("box 8 1 1 1 x\nbox 8 1 1 1 x").find("line 2: 'box' is there already"), std::string::npos);
}

TEST(Hardware, UnknownNamesGetTheNearest) {
  const auto refused = find_hardware(builtin_hardware(), "H-200");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("did you mean h200?"), std::string::npos) << refused.error().message;
}

}  // namespace
}  // namespace quire
