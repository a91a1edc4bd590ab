#include "core/hash.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace quire {
namespace {

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::byte b : digest) text += fmt::format("{:02x}", std::to_integer<unsigned>(b));
  return text;
}

// The examples of FIPS 180.
TEST(Hasher, KnownDigests) {
  Hasher hasher;
  EXPECT_EQ(hex(hasher.finish()), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(hasher.update(bytes("abc")).finish()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(hasher.update(bytes("a")).update(bytes("bc")).finish()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
      << "finish starts anew, and how the bytes are cut makes no difference";
  const std::string million(1'000'000, 'a');
  EXPECT_EQ(hex(hasher.update(bytes(million)).finish()),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Hasher, IntegersAreLittleEndianInTheirWidth) {
  Hasher hasher;
  const Digest expected = hasher.update(bytes(std::string_view("\x04\x03\x02\x01", 4))).finish();
  EXPECT_EQ(hasher.update(std::int32_t{0x01020304}).finish(), expected);
  EXPECT_NE(hasher.update(std::int64_t{0x01020304}).finish(), expected);
  EXPECT_EQ(hasher.update(std::int16_t{-2}).finish(), hasher.update(std::uint16_t{0xFFFE}).finish());
  EXPECT_EQ(hasher.update(std::uint8_t{'a'}).finish(), hasher.update(bytes("a")).finish());
}

}  // namespace
}  // namespace quire
