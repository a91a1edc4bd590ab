#include "core/json_shape.h"

#include <gtest/gtest.h>

#include <string>

namespace quire {
namespace {

std::string nested(int levels) {
  const auto count = static_cast<std::size_t>(levels);
  return std::string(count, '[') + std::string(count, ']');
}

std::string object(int members) {
  std::string text = "{";
  for (int i = 0; i < members; ++i) text += (i > 0 ? ", \"" : "\"") + std::to_string(i) + "\": {\"a\": 1}";
  return text + "}";
}

TEST(JsonShape, DepthAndWidthAreCounted) {
  EXPECT_EQ(json_shape(""), JsonShape::good);
  EXPECT_EQ(json_shape(nested(kDeepestJson)), JsonShape::good);
  EXPECT_EQ(json_shape(nested(kDeepestJson + 1)), JsonShape::deep);
  EXPECT_EQ(json_shape(object(kWidestJson)), JsonShape::good);
  EXPECT_EQ(json_shape(object(kWidestJson + 1)), JsonShape::wide);
  EXPECT_EQ(json_shape("[" + object(kWidestJson) + ", " + object(kWidestJson) + "]"), JsonShape::good);
}

TEST(JsonShape, StringsAreNotLookedInto) {
  const std::string brackets = nested(200), colons(5000, ':');
  EXPECT_EQ(json_shape("{\"a\": \"" + brackets + colons + "\\\"" + brackets + "\"}"), JsonShape::good);
  EXPECT_EQ(json_shape("\"a\\\\\"" + brackets), JsonShape::deep);
}

TEST(JsonShape, BrokenTextDoesNoHarm) {
  for (const char* text : {"]]]]{:", "\"", "\"\\", ":::", "}:{"}) EXPECT_EQ(json_shape(text), JsonShape::good) << text;
}

}  // namespace
}  // namespace quire
