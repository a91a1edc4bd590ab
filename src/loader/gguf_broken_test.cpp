// Broken files, one per way of breaking them, each with the one line it must give.
#include <gtest/gtest.h>

#include "loader/gguf.h"
#include "support/gguf_builder.h"

namespace quire {
namespace {

using testing_support::GgufBuilder;

constexpr std::uint64_t kHuge = ~std::uint64_t{0};

struct Broken {
  std::string name;
  std::vector<std::byte> bytes;
  std::string error;
};

void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.name; }

GgufBuilder valid() {
  GgufBuilder b;
  b.u32("n", 1).string("s", "text").strings("list", {"a", "b"}).f32_tensor("w", {8, 4}).f32_tensor("v", {8});
  return b;
}

std::vector<std::byte> cut(std::size_t size, std::optional<std::uint64_t> tensor_count = {}) {
  GgufBuilder b = valid();
  b.tensor_count = tensor_count;
  auto bytes = b.build();
  bytes.resize(size);
  return bytes;
}

std::vector<std::byte> with(const std::function<void(GgufBuilder&)>& change) {
  GgufBuilder b = valid();
  change(b);
  return b.build();
}

std::vector<std::byte> with_tensor(GgufBuilder::Tensor t) {
  return with([&](GgufBuilder& b) { b.tensor(std::move(t)); });
}

std::vector<std::byte> with_key(GgufType type, const std::function<void(GgufBuilder&)>& value) {
  return with([&](GgufBuilder& b) { b.key("bad", type, value); });
}

std::vector<std::byte> with_array(GgufType element, std::uint64_t count) {
  return with_key(GgufType::array, [=](GgufBuilder& b) {
    b.number(static_cast<std::uint32_t>(element));
    b.number(count);
  });
}

GgufBuilder::Tensor f32(std::vector<std::uint64_t> dims, std::optional<std::uint64_t> offset = {}) {
  return {"bad", std::move(dims), 0, std::vector<std::byte>(32), offset};
}

std::vector<Broken> broken_files() {
  std::vector<Broken> all;
  auto add = [&](std::string name, std::vector<std::byte> bytes, std::string error) {
    all.push_back({std::move(name), std::move(bytes), std::move(error)});
  };
  const auto u8 = [](std::uint8_t v) { return [v](GgufBuilder& b) { b.number(v); }; };

  add("nothing", {}, "the file ends inside the magic: 4 bytes expected at offset 0, 0 left");
  add("magic_only", cut(4), "the file ends inside the version: 4 bytes expected at offset 4, 0 left");
  add("wrong_magic", with([](auto& b) { b.magic = "GGML"; }), "not a GGUF file: it starts with \"GGML\"");
  add("zip_file", with([](auto& b) { b.magic = "PK\x03\x04"; }), "not a GGUF file: it starts with \"PK\\x03\\x04\"");
  add("version_0", with([](auto& b) { b.version = 0; }), "a big-endian GGUF file");
  add("version_1", with([](auto& b) { b.version = 1; }), "GGUF version 1; versions 2 and 3 are supported");
  add("version_4", with([](auto& b) { b.version = 4; }), "GGUF version 4; versions 2 and 3 are supported");
  add("big_endian", with([](auto& b) { b.version = 3u << 24; }), "a big-endian GGUF file");
  add("no_counts", cut(8), "the file ends inside the tensor count");
  add("huge_key_count", with([](auto& b) { b.key_count = kHuge; }), "18446744073709551615 metadata keys cannot fit");
  add("huge_tensor_count", with([](auto& b) { b.tensor_count = kHuge / 2; }), "tensors cannot fit in the");
  add("one_key_too_many", with([](auto& b) { b.key_count = 4; }), "the file ends inside a tensor name");
  add("ends_in_key", cut(70, 0), "the file ends inside a metadata key");
  add("ends_in_value", cut(64, 0), "the file ends inside key 's'");
  add("ends_in_tensors", cut(170), "the file ends inside");
  add("ends_in_data", cut(valid().build().size() - 32), "tensor 'v' at 128 reaches past the 128 bytes of tensor data");
  add("long_key", with([](auto& b) { b.u32(std::string(70000, 'k'), 1); }), "a metadata key of 70000 bytes");
  add("control_character_in_key", with([](auto& b) { b.u32("a\033[2Jb", 1); }), "holds control characters");
  add("newline_in_tensor_name", with([](auto& b) { b.f32_tensor("w\nx", {8}); }), "holds control characters");
  add("duplicate_key", with([](auto& b) { b.u32("n", 2); }), "key 'n' appears twice");
  add("unknown_value_type", with_key(static_cast<GgufType>(13), u8(0)), "key 'bad': value type 13 does not exist");
  add("unknown_element_type", with_array(static_cast<GgufType>(99), 1), "key 'bad': value type 99 does not exist");
  add("array_of_arrays", with_array(GgufType::array, 1), "key 'bad': arrays of arrays are not supported");
  add("array_past_the_end", with_array(GgufType::u8, 1u << 20), "the file ends inside key 'bad'");
  add("array_size_overflow", with_array(GgufType::u64, kHuge / 4), "the file ends inside key 'bad'");
  add("huge_string_array", with_array(GgufType::string, kHuge / 8), "strings cannot fit in the");
  add("huge_string", with_key(GgufType::string, [](GgufBuilder& b) { b.number(kHuge); }),
      "the file ends inside key 'bad'");
  add("rank_0", with_tensor(f32({})), "tensor 'bad' has 0 dimensions; expected 1 to 4");
  add("rank_5", with_tensor(f32({1, 1, 1, 1, 1})), "tensor 'bad' has 5 dimensions; expected 1 to 4");
  add("dimension_0", with_tensor(f32({8, 0})), "tensor 'bad' has a dimension of 0");
  add("element_overflow", with_tensor(f32({kHuge / 2, 4, 4})), "tensor 'bad' at 160 reaches past");
  add("byte_overflow", with_tensor(f32({kHuge / 4 + 1})), "tensor 'bad' at 160 reaches past");
  add("offset_overflow", with_tensor(f32({8}, kHuge - 31)), "tensor 'bad' at 18446744073709551584 reaches past");
  add("unaligned_offset", with_tensor(f32({8}, 164)), "tensor 'bad' starts at 164, not a multiple of the alignment 32");
  add("overlap", with_tensor(f32({8}, 96)), "tensors 'w' and 'bad' overlap");
  add("same_place", with_tensor(f32({8}, 128)), "overlap");
  add("duplicate_tensor", with([](auto& b) { b.f32_tensor("w", {8}); }), "tensor 'w' appears twice");
  add("unsupported_type", with_tensor({"bad", {256}, 16, std::vector<std::byte>(66), {}}),
      "tensor 'bad' has type IQ2_XXS (number 16), which this build does not read");
  add("unknown_type", with_tensor({"bad", {256}, 4000, {}, {}}), "tensor 'bad' has type unknown (number 4000)");
  add("removed_type", with_tensor({"bad", {32}, 4, {}, {}}), "tensor 'bad' has type unknown (number 4)");
  add("part_of_a_block", with_tensor({"bad", {48}, 2, std::vector<std::byte>(32), {}}),
      "tensor 'bad' has rows of 48 values; Q4_0 comes in blocks of 32");
  add("alignment_0", with([](auto& b) { b.u32("general.alignment", 0); }), "key 'general.alignment' is 0; expected");
  add("alignment_48", with([](auto& b) { b.u32("general.alignment", 48); }), "key 'general.alignment' is 48; expected");
  add("alignment_text", with([](auto& b) { b.string("general.alignment", "32"); }),
      "key 'general.alignment' is string \"32\"; expected an integer");
  add("alignment_huge", with([](auto& b) { b.u32("general.alignment", 1u << 31); }), "expected an integer from 0 to");
  return all;
}

class GgufBroken : public testing::TestWithParam<Broken> {};

TEST_P(GgufBroken, GivesOneClearLine) {
  const auto result = Gguf::parse(GetParam().bytes, "broken.gguf");
  ASSERT_FALSE(result.ok());
  const std::string& message = result.error().message;
  EXPECT_EQ(message.rfind("broken.gguf: ", 0), 0u) << message;
  EXPECT_NE(message.find(GetParam().error), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(Files, GgufBroken, testing::ValuesIn(broken_files()),
                         [](const auto& param) { return param.param.name; });

TEST(GgufBrokenFiles, TheUnbrokenOneParses) {
  const auto bytes = valid().build();
  const auto result = Gguf::parse(bytes, "ok");
  EXPECT_TRUE(result.ok()) << result.error().message;
}

// Every prefix of a valid file is refused or is harmless; none crashes.
TEST(GgufBrokenFiles, EveryTruncation) {
  const auto bytes = valid().build();
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const std::vector<std::byte> prefix(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    (void)Gguf::parse(prefix, "cut").ok();
  }
}

}  // namespace
}  // namespace quire
