// What is saved comes back bit for bit, and only where it belongs.
#include "cache/saved_prompt_test_support.h"

namespace quire {
namespace {

using namespace testing_support;

struct Setup {
  const char* name;
  std::vector<KvGroupSpec> groups;
};

std::vector<Setup> setups() {
  std::vector<Setup> all;
  for (const KvFormatInfo& format : kv_formats()) all.push_back({format.name.data(), {spec(format.format)}});
  KvGroupSpec mixed = spec(KvFormat::q8);
  mixed.values = KvFormat::q4;
  mixed.sink_pages = 1;
  all.push_back({"mixed_with_a_first_page", {mixed}});
  KvGroupSpec recent = spec(KvFormat::q2);
  recent.sink_pages = 1;
  recent.recent_pages = 2;
  all.push_back({"recent_pages_twice", {recent}});
  all.push_back({"window", {spec(KvFormat::f16), spec(KvFormat::f16, {0, 40})}});
  KvGroupSpec local = recent;
  local.visible = {0, 70};
  all.push_back({"window_encoded", {spec(KvFormat::q4), local}});
  return all;
}

class SavedPrompt : public testing::TestWithParam<Setup> {};
INSTANTIATE_TEST_SUITE_P(Caches, SavedPrompt, testing::ValuesIn(setups()),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_P(SavedPrompt, ComesBackBitForBit) {
  auto cache = make(GetParam().groups), other = make(GetParam().groups);
  const PageSpace space = space_of(*cache);
  const auto tokens = counting(32 * 6 + 10);
  compute(*cache, tokens);
  const auto file = save(*cache, space, tokens);
  const auto restored = restore(*other, space, file);
  ASSERT_TRUE(restored.ok()) << restored.error().message;
  EXPECT_EQ(*restored, 6);
  EXPECT_EQ(other->find(tokens).tokens, 32 * 6) << "what a look-up finds is what was restored";
  EXPECT_EQ(other->find(tokens, {"another tenant", {}}).tokens, 0);
  ASSERT_EQ(take_over(*cache, 5, tokens), 6);
  ASSERT_EQ(take_over(*other, 5, tokens), 6);
  for (const PagePlace& place : PrefixPages::places(cache->layouts(), 6)) {
    const auto there = cache->sealed_page(5, place), here = other->sealed_page(5, place);
    ASSERT_EQ(std::memcmp(there.data(), here.data(), there.size()), 0) << place.block << " " << place.group;
  }
  other->release(5);
  const auto again = save(*other, space, tokens);
  EXPECT_EQ(file, again) << "saving what was restored gives the same file";
}

TEST_P(SavedPrompt, IsIndexedUnderTheSaltItIsRestoredWith) {
  auto cache = make(GetParam().groups), other = make(GetParam().groups);
  const PageSpace space = space_of(*cache);
  const auto tokens = counting(32 * 4 + 1);
  compute(*cache, tokens);
  ASSERT_TRUE(restore(*other, space, save(*cache, space, tokens), "mine").ok());
  EXPECT_EQ(other->find(tokens, {"mine", {}}).tokens, 32 * 4);
  EXPECT_EQ(other->find(tokens, {"yours", {}}).tokens, 0);
  EXPECT_EQ(other->find(tokens).tokens, 0);
}

// What is there already is not taken twice.
TEST_P(SavedPrompt, RestoringWhatIsThereTakesNoRoom) {
  auto cache = make(GetParam().groups);
  const PageSpace space = space_of(*cache);
  const auto tokens = counting(32 * 5);
  compute(*cache, tokens);
  const auto file = save(*cache, space, tokens);
  const std::uint64_t before = cache->pool_counters().used_bytes;
  ASSERT_TRUE(restore(*cache, space, file).ok());
  EXPECT_EQ(cache->pool_counters().used_bytes, before);
}

TEST_P(SavedPrompt, GoesOnWhereOnlyABeginningIsThere) {
  auto cache = make(GetParam().groups), other = make(GetParam().groups);
  const PageSpace space = space_of(*cache);
  const auto tokens = counting(32 * 6 + 1);
  compute(*cache, tokens);
  compute(*other, std::span(tokens).first(32 * 3));
  ASSERT_TRUE(restore(*other, space, save(*cache, space, tokens)).ok());
  EXPECT_EQ(other->find(tokens).tokens, 32 * 6);
  ASSERT_TRUE(other->open(7).ok());
  ASSERT_EQ(other->reuse(7, tokens), 32 * 6);
  EXPECT_TRUE(extend(*other, 7, tokens).ok()) << "the sequence goes on from what was restored";
}

TEST(SavedPromptSpace, PagesOfAnotherModelOrFormatAreRefusedWithTheReason) {
  auto cache = make();
  const PageSpace space = space_of(*cache);
  const auto tokens = counting(64);
  compute(*cache, tokens);
  const auto file = save(*cache, space, tokens);
  const auto refused = [&](const PageSpace& mine, const char* reason) {
    const auto opened = open_saved(mine, file);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code, Errc::unsupported);
    EXPECT_NE(opened.error().message.find(reason), std::string::npos) << opened.error().message;
  };
  refused(space_of(*cache, 2), "model file with digest 0100000000000000; here it is 0200000000000000");
  refused(page_space({{std::byte{1}}, "vnni", "1.2.3"}, *cache), "kernels ref; here it is vnni");
  refused(page_space({{std::byte{1}}, "ref", "1.3"}, *cache), "version of quire 1.2.3; here it is 1.3");
  refused(space_of(*make({spec(KvFormat::q8)})), "type of keys f16; here it is q8");
  refused(space_of(*make({spec(), spec()})), "number of layer groups 1; here it is 2");
  KvGroupSpec more = spec();
  more.layers = 3;
  refused(space_of(*make({more})), "number of layers 2; here it is 3");
  CacheOptions mapped;
  mapped.groups = {spec()};
  mapped.layer_map = {{0, 1}, {0, 0}};
  mapped.budget_bytes = 1 << 22;
  refused(space_of(**KvCache::create(mapped)), "map of layers");
}

TEST(SavedPromptRoom, StopsWhereThereIsNoRoomAndHarmsNobody) {
  auto large = make();
  const PageSpace space = space_of(*large);
  const auto tokens = counting(32 * 20);
  compute(*large, tokens);
  const auto file = save(*large, space, tokens);
  auto small = make({spec()}, 48 << 10);
  const auto others = counting(64, 1000);
  ASSERT_TRUE(small->open(9).ok());
  ASSERT_TRUE(extend(*small, 9, others).ok());
  const auto restored = restore(*small, space, file);
  ASSERT_FALSE(restored.ok());
  EXPECT_EQ(restored.error().code, Errc::out_of_memory);
  const std::int64_t found = small->find(tokens).tokens;
  EXPECT_GT(found, 0);
  EXPECT_LT(found, 32 * 19);
  expect_holds(*small, 9, others);
  EXPECT_LE(small->pool_counters().reserved_bytes, small->budget_bytes());
}

}  // namespace
}  // namespace quire
