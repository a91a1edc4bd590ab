#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

// Feeds `text` in pieces of `size` bytes.
std::string shown(StopMatcher& matcher, std::string_view text, std::size_t size) {
  std::string out;
  for (std::size_t at = 0; at < text.size() && !matcher.stopped(); at += size)
    out += matcher.push(text.substr(at, size));
  return out + matcher.flush();
}

TEST(StopMatcher, EndsBeforeTheEarliestStringWhereverThePiecesAreCut) {
  for (const std::size_t size : {1u, 2u, 3u, 5u, 100u}) {
    StopMatcher matcher({"###", "\nUser:"});
    EXPECT_EQ(shown(matcher, "Hello # ## there\nUser: no ### more", size), "Hello # ## there") << size;
    EXPECT_TRUE(matcher.stopped());
  }
}

TEST(StopMatcher, ShowsEverythingWhereNoneComes) {
  for (const std::size_t size : {1u, 2u, 7u}) {
    StopMatcher matcher({"aab", ""});
    EXPECT_EQ(shown(matcher, "aaaaaaa aa", size), "aaaaaaa aa") << size;
    EXPECT_FALSE(matcher.stopped());
  }
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBeABeginning) {
  StopMatcher matcher({"stop"});
  EXPECT_EQ(matcher.push("a st"), "a ");
  EXPECT_EQ(matcher.push("ar"), "star");
  EXPECT_EQ(matcher.push("sto"), "");
  EXPECT_EQ(matcher.push("stopped"), "sto");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.push("more"), "");
}

// A string that lies inside another may come first.
TEST(StopMatcher, TheShorterOfTwoThatOverlap) {
  StopMatcher matcher({"abcd", "bc"});
  EXPECT_EQ(matcher.push("ab"), "");
  EXPECT_EQ(matcher.push("c"), "a");
  EXPECT_TRUE(matcher.stopped());
}

}  // namespace
}  // namespace quire
