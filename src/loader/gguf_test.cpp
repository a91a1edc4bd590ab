#include "loader/gguf.h"

#include <gtest/gtest.h>

#include "support/gguf_builder.h"

namespace quire {
namespace {

using testing_support::GgufBuilder;

TEST(Gguf, ReadsEveryKindOfValue) {
  GgufBuilder b;
  b.u32("n", 7).f32("x", 0.5f).string("s", "hello").strings("list", {"a", "", "ccc"});
  b.key("flag", GgufType::boolean, [](GgufBuilder& o) { o.number(std::uint8_t{1}); });
  b.key("small", GgufType::i8, [](GgufBuilder& o) { o.number(std::int8_t{-3}); });
  b.key("big", GgufType::u64, [](GgufBuilder& o) { o.number(~std::uint64_t{0}); });
  b.key("d", GgufType::f64, [](GgufBuilder& o) { o.number(0.25); });
  b.key("ints", GgufType::array, [](GgufBuilder& o) {
    o.number(static_cast<std::uint32_t>(GgufType::i16));
    o.number(std::uint64_t{2});
    o.number(std::int16_t{-5});
    o.number(std::int16_t{9});
  });
  b.key("floats", GgufType::array, [](GgufBuilder& o) {
    o.number(static_cast<std::uint32_t>(GgufType::f32));
    o.number(std::uint64_t{1});
    o.number(1.5f);
  });
  b.f32_tensor("w", {4, 2}, 3.f);
  const auto bytes = b.build();
  auto gguf = Gguf::parse(bytes, "t.gguf");
  ASSERT_TRUE(gguf.ok()) << gguf.error().message;

  EXPECT_EQ(*gguf->integer("n", 100), 7u);
  EXPECT_EQ(*gguf->real("x"), 0.5);
  EXPECT_EQ(*gguf->real("d"), 0.25);
  EXPECT_EQ(*gguf->string("s"), "hello");
  EXPECT_TRUE(*gguf->boolean("flag"));
  EXPECT_EQ(*gguf->strings("list"), (std::vector<std::string_view>{"a", "", "ccc"}));
  EXPECT_EQ(*gguf->integers("ints"), (std::vector<std::int64_t>{-5, 9}));
  EXPECT_EQ(*gguf->floats("floats"), (std::vector<float>{1.5f}));
  EXPECT_EQ(gguf->show("big"), "18446744073709551615");
  EXPECT_EQ(gguf->show("small"), "-3");

  EXPECT_FALSE(gguf->integer("small", 100).ok());  // negative
  EXPECT_FALSE(gguf->integer("big", ~std::uint64_t{0}).ok());
  EXPECT_FALSE(gguf->integer("n", 6).ok());  // above the caller's limit
  EXPECT_EQ(gguf->integer("x", 9).error().message, "t.gguf: key 'x' is f32 0.5; expected an integer from 0 to 9");
  EXPECT_EQ(gguf->string("absent").error().message, "t.gguf: key 'absent' is missing; expected a string");
  EXPECT_EQ(gguf->floats("ints").error().message, "t.gguf: key 'ints' is an array of i16; expected an array of f32");

  const GgufTensor* w = gguf->find_tensor("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->rank, 2);
  EXPECT_EQ(w->elements(), 8u);
  EXPECT_EQ(w->data.size(), 32u);
  EXPECT_EQ(gguf->find_tensor("v"), nullptr);
}

TEST(Gguf, NoTensorsAndNoKeys) {
  const auto bytes = GgufBuilder().build();
  EXPECT_TRUE(Gguf::parse(bytes, "t").ok());
}

TEST(Gguf, Version2) {
  GgufBuilder b;
  b.version = 2;
  b.u32("n", 1);
  const auto bytes = b.build();
  auto gguf = Gguf::parse(bytes, "t");
  ASSERT_TRUE(gguf.ok());
  EXPECT_EQ(gguf->version(), 2u);
}

}  // namespace
}  // namespace quire
