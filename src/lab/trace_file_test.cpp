#include "lab/trace_file.h"

#include <gtest/gtest.h>

#include <string>

namespace quire {
namespace {

std::string line(const std::string& ids, const std::string& time = "0") {
  return "{\"timestamp\": " + time + ", \"input_length\": 600, \"output_length\": 5, \"hash_ids\": " + ids + "}\n";
}

TEST(TraceFile, RequestsAndBlocks) {
  const auto trace = parse_trace(line("[7, 900]") + "\n" + line("[7]", "12") + line("[]", "12"), "t");
  ASSERT_TRUE(trace.ok());
  ASSERT_EQ(trace->requests.size(), 3u);
  EXPECT_EQ(trace->requests[1].timestamp_ms, 12);
  EXPECT_EQ(trace->requests[1].input_tokens, 600);
  EXPECT_EQ(trace->requests[1].output_tokens, 5);
  EXPECT_EQ(trace->ids, (std::vector<TokenId>{0, 1, 0})) << "numbered in order of appearance";
  EXPECT_EQ(trace->distinct, 2u);
  EXPECT_EQ(trace->blocks_of(trace->requests[2]).size(), 0u);
}

TEST(TraceFile, LongHashesStayApart) {
  const auto trace = parse_trace(line("[18446744073709551615, 18446744073709551614, -1]"), "t");
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ(trace->ids, (std::vector<TokenId>{0, 1, 0}));
}

TEST(TraceFile, BrokenLinesAreNamed) {
  const auto message = [](const std::string& text) {
    const auto trace = parse_trace(text, "t.jsonl");
    return trace.ok() ? std::string("taken") : trace.error().message;
  };
  EXPECT_EQ(message(""), "t.jsonl: no requests in it; expected one JSON object a line");
  EXPECT_EQ(message("\n \n"), message(""));
  EXPECT_NE(message(line("[1]") + "{oops\n").find("t.jsonl, line 2: not a JSON object"), std::string::npos);
  EXPECT_NE(message(line("[1]") + "\n[1, 2]\n").find("line 3: not a JSON object"), std::string::npos);
  EXPECT_NE(message("{\"timestamp\": 1}").find("line 1: no \"input_length\""), std::string::npos);
  EXPECT_NE(message(line("[1]", "-3")).find("\"timestamp\""), std::string::npos);
  EXPECT_NE(message(line("[1]", "1.5")).find("\"timestamp\""), std::string::npos);
  EXPECT_NE(message(line("[1]", "1e300")).find("\"timestamp\""), std::string::npos);
  EXPECT_NE(message(line("3")).find("no \"hash_ids\""), std::string::npos);
  EXPECT_NE(message(line("[1, \"x\"]")).find("not a whole number"), std::string::npos);
  EXPECT_NE(message(line("[1, 2.5]")).find("not a whole number"), std::string::npos);
  EXPECT_NE(message(line("[1, [2]]")).find("not a whole number"), std::string::npos);
  EXPECT_NE(message(line("[1]", "5") + line("[1]", "4")).find("line 2: its timestamp"), std::string::npos);
  EXPECT_NE(message(std::string(100000, '[')).find("line 1"), std::string::npos) << "depth is no way to crash";
}

}  // namespace
}  // namespace quire
