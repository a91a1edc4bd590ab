#include "server/router.h"

#include <gtest/gtest.h>

namespace quire::server {
namespace {

std::string parameter(const std::string& query, const char* name) {
  HttpRequest request;
  request.query = query;
  return request.parameter(name);
}

TEST(HttpRequest, ParametersOfTheQuery) {
  EXPECT_EQ(parameter("model=a&detail=pages", "model"), "a");
  EXPECT_EQ(parameter("model=a&detail=pages", "detail"), "pages");
  EXPECT_EQ(parameter("model=a%20b+c%2F%3d", "model"), "a b c/=");
  EXPECT_EQ(parameter("x=1&model=a=b&model=c", "model"), "a=b");
  EXPECT_EQ(parameter("model=100%&x", "model"), "100%");
  EXPECT_EQ(parameter("model=%4", "model"), "%4");
  EXPECT_EQ(parameter("model=%zz", "model"), "%zz");
  for (const char* query : {"", "&", "=", "model", "model&", "models=a", "a=model", "&&model="}) {
    EXPECT_EQ(parameter(query, "model"), "") << query;
  }
}

}  // namespace
}  // namespace quire::server
