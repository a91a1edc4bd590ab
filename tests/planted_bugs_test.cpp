// A test that never failed proves nothing. Each bug of core/planted.h is planted, and the tests named
// beside it must fail, or stop with an assertion, in a child process of this program.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "core/planted.h"

extern char** environ;

namespace quire {
namespace {

const char* const kProperty = "*KvCacheProperty*";
const char* const kNames = "PageName.*";
const char* const kAttention = "RefAttention.*";
const char* const kDecoder = "*DecoderFixture.ReferenceAgreesWithPyTorch/*";

// Whether the tests pass.
bool passes(Bug bug, const std::string& tests) {
  std::vector<std::string> variables{"QUIRE_PLANTED_BUG=" + std::to_string(static_cast<int>(bug)),
                                     "QUIRE_PROPERTY_OPERATIONS=30000", "QUIRE_PROPERTY_SHRINK=0"};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("QUIRE_PROPERTY_")) variables.emplace_back(*variable);
  }
  std::vector<std::string> arguments{"planted_bugs_test", "--gtest_fail_fast", "--gtest_brief=1",
                                     "--gtest_filter=" + tests};
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (std::string& text : texts) all.push_back(text.data());
    all.push_back(nullptr);
    return all;
  };
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&quiet, stream, "/dev/null", 1 /* to write */, 0);
  }
  pid_t child = 0;
  const int failed =
      posix_spawn(&child, "/proc/self/exe", &quiet, nullptr, pointers(arguments).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&quiet);
  EXPECT_EQ(failed, 0);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct Planting {
  const char* name;
  Bug bug;
  std::vector<const char*> caught_by;
};
void PrintTo(const Planting& planting, std::ostream* out) { *out << planting.name; }

class PlantedBug : public testing::TestWithParam<Planting> {};
INSTANTIATE_TEST_SUITE_P(
    All, PlantedBug,
    testing::Values(Planting{"fork_not_counted", Bug::fork_not_counted, {kProperty}},
                    Planting{"copy_one_row_short", Bug::copy_one_row_short, {kProperty}},
                    Planting{"parent_leaves_first", Bug::parent_leaves_first, {kProperty}},
                    Planting{"salt_not_in_name", Bug::salt_not_in_name, {kProperty}},
                    Planting{"policy_not_in_name", Bug::policy_not_in_name, {kProperty}},
                    Planting{"window_frees_shared", Bug::window_frees_shared, {kProperty}},
                    Planting{"written_one_off", Bug::written_one_off, {kProperty, kAttention, kDecoder}},
                    Planting{"one_slot_too_many", Bug::one_slot_too_many, {kAttention, kDecoder}},
                    Planting{"layers_mixed", Bug::layers_mixed, {kProperty, kDecoder}},
                    Planting{"rope_by_row", Bug::rope_by_row, {kDecoder}}),
    [](const auto& param) { return std::string(param.param.name); });

TEST_P(PlantedBug, IsCaught) {
  for (const char* const tests : GetParam().caught_by) EXPECT_FALSE(passes(GetParam().bug, tests)) << tests;
}

TEST(NoPlantedBug, NothingIsReported) {
  for (const char* const tests : {kProperty, kNames, kAttention, kDecoder}) {
    EXPECT_TRUE(passes(Bug::none, tests)) << tests;
  }
}

}  // namespace
}  // namespace quire
