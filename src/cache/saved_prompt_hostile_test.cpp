// Files that were cut, changed or put together: an error each, and never a wrong page.
#include <random>

#include "cache/saved_prompt_test_support.h"

namespace quire {
namespace {

using namespace testing_support;

class HostileFile : public testing::Test {
 protected:
  HostileFile() : cache_(make(groups())), space_(space_of(*cache_)), tokens_(counting(32 * 4 + 5)) {
    compute(*cache_, tokens_);
    file_ = save(*cache_, space_, tokens_);
  }
  static std::vector<KvGroupSpec> groups() {
    KvGroupSpec local = spec(KvFormat::q4, {0, 40});
    return {spec(KvFormat::q8), local};
  }

  // Refused, and whatever was indexed before the damage was met is right.
  void expect_refused(std::span<const std::byte> file, const std::string& what) {
    if (victim_ == nullptr || ++uses_ % 64 == 0) victim_ = make(groups());
    const auto restored = restore(*victim_, space_, file);
    ASSERT_FALSE(restored.ok()) << what;
    EXPECT_FALSE(restored.error().message.empty());
    const std::int64_t blocks = take_over(*victim_, 5, tokens_);
    ASSERT_EQ(take_over(*cache_, 5, tokens_), 4);
    for (const PagePlace& place : PrefixPages::places(victim_->layouts(), blocks)) {
      const auto wrong = victim_->sealed_page(5, place);
      if (place.group != 0) continue;  // windows differ by how far the prefix goes
      const auto right = cache_->sealed_page(5, place);
      ASSERT_EQ(std::memcmp(wrong.data(), right.data(), right.size()), 0) << what;
    }
    victim_->release(5);
    cache_->release(5);
  }

  std::unique_ptr<KvCache> cache_, victim_;
  int uses_ = 0;
  PageSpace space_;
  std::vector<TokenId> tokens_;
  std::vector<std::byte> file_;
};

TEST_F(HostileFile, EveryTruncationIsRefused) {
  for (std::size_t length = 0; length < file_.size(); ++length) {
    ASSERT_FALSE(open_saved(space_, std::span(file_).first(length)).ok()) << length;
  }
  std::vector<std::byte> longer = file_;
  longer.push_back({});
  EXPECT_FALSE(open_saved(space_, longer).ok());
  ASSERT_TRUE(open_saved(space_, file_).ok());
}

// The source ends although it said it had more: as a file that is cut while it is read.
TEST_F(HostileFile, AFileThatShrinksIsRefused) {
  for (std::size_t length = 0; length < file_.size(); length += 7) {
    auto rest = std::span<const std::byte>(file_).first(length);
    auto reader = SavedPromptReader::open(
        space_,
        [&](std::span<std::byte> into) -> Result<void> {
          if (into.size() > rest.size()) return Error{Errc::bad_file, "ends too early"};
          std::memcpy(into.data(), rest.data(), into.size());
          rest = rest.subspan(into.size());
          return {};
        },
        file_.size());
    bool failed = !reader.ok();
    while (!failed && reader->next() < reader->blocks()) failed = !reader->read_block().ok();
    ASSERT_TRUE(failed) << length;
  }
}

TEST_F(HostileFile, EveryFlippedBitOfTheHeaderIsSeen) {
  const std::size_t header = 16 + space_.fields.size() * 16 + 16 + 32 + tokens_.size() * sizeof(TokenId) + 32;
  for (std::size_t at = 0; at < header + 300; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> changed = file_;
      changed[at] ^= static_cast<std::byte>(1 << bit);
      expect_refused(changed, "byte " + std::to_string(at));
    }
  }
}

TEST_F(HostileFile, FlippedBytesAnywhereAreSeen) {
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> changed = file_;
    const int count = 1 + static_cast<int>(random() % 3);
    for (int k = 0; k < count; ++k) changed[random() % changed.size()] ^= static_cast<std::byte>(1 + random() % 255);
    if (changed != file_) expect_refused(changed, "seed " + std::to_string(i));
  }
}

// Two good files of one space, whose second blocks have the same tokens after different first ones.
TEST_F(HostileFile, ARecordOfAnotherPromptIsRefused) {
  std::vector<TokenId> others = tokens_;
  others[3] = 999;
  compute(*cache_, others);
  const auto foreign = save(*cache_, space_, others);
  ASSERT_EQ(foreign.size(), file_.size());
  std::size_t begin = 16 + space_.fields.size() * 16 + 16 + 32 + tokens_.size() * sizeof(TokenId) + 32;
  for (const PagePlace& place : PrefixPages::places(space_.layouts, 4)) {
    const std::size_t size = 176 + static_cast<std::size_t>(place.bytes) + 32;
    std::vector<std::byte> spliced = file_;
    std::copy_n(foreign.begin() + static_cast<std::ptrdiff_t>(begin), size,
                spliced.begin() + static_cast<std::ptrdiff_t>(begin));
    expect_refused(spliced, "page " + std::to_string(place.block));
    begin += size;
  }
  EXPECT_EQ(begin, file_.size());
}

// With digests that fit, as somebody who can write the file could make them: sizes alone must do.
TEST_F(HostileFile, CountsThatLieAreRefusedBeforeAnythingIsAllocated) {
  const std::size_t counts = 16 + space_.fields.size() * 16;
  const auto with = [&](std::uint64_t tokens, std::uint64_t blocks) {
    std::vector<std::byte> file = file_;
    std::memcpy(file.data() + counts, &tokens, 8);
    std::memcpy(file.data() + counts + 8, &blocks, 8);
    const Digest digest = Hasher().update(std::span<const std::byte>(file).first(counts + 16)).finish();
    std::memcpy(file.data() + counts + 16, digest.data(), digest.size());
    return open_saved(space_, file);
  };
  const auto right = static_cast<std::uint64_t>(tokens_.size());
  EXPECT_TRUE(with(right, 4).ok());
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  for (const std::uint64_t blocks : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{3}, std::uint64_t{5},
                                     std::uint64_t{1} << 31, std::uint64_t{1} << 58, kAll / 32, kAll}) {
    for (const std::uint64_t tokens : {std::uint64_t{0}, right, right + 1, std::uint64_t{1} << 62, kAll / 4, kAll}) {
      EXPECT_FALSE(with(tokens, blocks).ok()) << tokens << " " << blocks;
    }
  }
}

}  // namespace
}  // namespace quire
