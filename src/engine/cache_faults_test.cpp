#include "engine/cache_faults.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace quire {
namespace {

Session open(const char* layout) {
  SessionOptions options;
  options.context = 96;
  options.threads = 1;
  options.cache.layout = layout;
  return std::move(*Session::create(*Model::load(std::string(QUIRE_TEST_DATA) + "/models/llama.gguf"), options));
}

const std::vector<TokenId> kPrompt = [] {
  std::vector<TokenId> tokens;
  for (int i = 0; i < 40; ++i) tokens.push_back((i * 37 + 11) % 95 + 1);
  return tokens;
}();

std::vector<float> copy(const Result<std::span<const float>>& logits) {
  EXPECT_TRUE(logits.ok());
  return {logits->begin(), logits->end()};
}

TEST(CacheFaults, AKeyIsWhatWasWrittenAndChangesWhatFollows) {
  Session clean = open("flat"), faulty = open("flat");
  (void)clean.prefill(kPrompt);
  (void)faulty.prefill(kPrompt);
  CacheFaults faults(faulty);
  const auto before = faults.read_key(2, 1, 17);
  ASSERT_TRUE(before.ok());
  ASSERT_TRUE(faults.overwrite_key(2, 1, 17, *before).ok());
  EXPECT_EQ(copy(clean.decode(5)), copy(faulty.decode(5))) << "the same key once more is no fault";

  std::vector<float> other(before->size(), 2.0f);
  ASSERT_TRUE(faults.overwrite_key(2, 1, 17, other).ok());
  EXPECT_EQ(*faults.read_key(2, 1, 17), other);
  EXPECT_EQ(*CacheFaults(clean).read_key(2, 1, 16), *faults.read_key(2, 1, 16)) << "its neighbour is untouched";
  EXPECT_NE(copy(clean.decode(6)), copy(faulty.decode(6)));
}

// The shift leaves a hole where the token belongs and puts it one slot on.
TEST(CacheFaults, AShiftLeavesAHole) {
  Session clean = open("flat"), faulty = open("flat");
  (void)clean.prefill(kPrompt);
  (void)faulty.prefill(kPrompt);
  CacheFaults faults(faulty);
  ASSERT_TRUE(faults.shift_writes(1).ok());
  EXPECT_NE(copy(clean.decode(5)), copy(faulty.decode(5)));
  const auto hole = faults.read_key(0, 0, 40);
  EXPECT_TRUE(std::ranges::all_of(*hole, [](float x) { return x == 0; }));
  (void)clean.decode(6);
  (void)faulty.decode(6);
  EXPECT_EQ(*faults.read_key(0, 0, 41), *CacheFaults(clean).read_key(0, 0, 40)) << "token 40 lies in slot 41";
}

TEST(CacheFaults, AShiftNeverWritesPastTheEnd) {
  Session session = open("flat");
  ASSERT_TRUE(CacheFaults(session).shift_writes(1).ok());
  Result<std::span<const float>> last = session.prefill(kPrompt);
  int decoded = 0;
  while (last.ok()) {
    last = session.decode(7);
    ++decoded;
  }
  EXPECT_EQ(last.error().code, Errc::context_full);
  EXPECT_EQ(session.cached().size(), 95u);
}

TEST(CacheFaults, WhatCannotBeDamagedIsRefused) {
  Session paged = open("paged"), flat = open("flat");
  (void)paged.prefill(kPrompt);
  (void)flat.prefill(kPrompt);
  EXPECT_EQ(CacheFaults(paged).shift_writes(1).error().code, Errc::unsupported);
  EXPECT_EQ(CacheFaults(paged).read_key(0, 0, 0).error().code, Errc::unsupported);
  CacheFaults faults(flat);
  EXPECT_FALSE(faults.read_key(99, 0, 0).ok());
  EXPECT_FALSE(faults.read_key(0, 9, 0).ok());
  EXPECT_FALSE(faults.read_key(0, 0, 40).ok());
  EXPECT_FALSE(faults.overwrite_key(0, 0, 0, std::vector<float>(3)).ok());
  EXPECT_FALSE(faults.shift_writes(-1).ok());
}

}  // namespace
}  // namespace quire
