#include "core/memory_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace quire {
namespace {

namespace fs = std::filesystem;

class ControlGroups : public testing::Test {
 protected:
  ~ControlGroups() override { fs::remove_all(root); }
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text << "\n";
  }
  const fs::path root = fs::path(testing::TempDir()) / ("quire_cgroups_" + std::to_string(::getpid()));
};

TEST_F(ControlGroups, TheTightestAroundTheProcessCounts) {
  write("a/b/memory.max", "3000");
  write("a/memory.max", "2000");
  write("memory.max", "max");
  write("other/memory.max", "1");
  EXPECT_EQ(cgroup_memory("0::/a/b\n", root), 2000u);
  EXPECT_EQ(cgroup_memory("0::/\n", root), std::nullopt);
}

TEST_F(ControlGroups, AContainerSeesItsOwnGroupAsTheRoot) {
  write("memory.max", "5000");
  EXPECT_EQ(cgroup_memory("0::/\n", root), 5000u);
  EXPECT_EQ(cgroup_memory("0::/not/seen/from/here\n", root), 5000u);
}

TEST_F(ControlGroups, VersionOneHasAFolderForMemory) {
  write("memory/a/memory.limit_in_bytes", "7000");
  write("a/memory.max", "1");
  EXPECT_EQ(cgroup_memory("5:cpu:/a\n4:hugetlb,memory:/a\n", root), 7000u);
  EXPECT_EQ(cgroup_memory("5:cpu:/a\n", root), std::nullopt);
}

TEST_F(ControlGroups, NonsenseIsNoLimit) {
  write("a/memory.max", "much");
  for (const char* text : {"", "\n", "0", "0:", "0::", "::/a", "0::/a\n", "memory", ":memory:"}) {
    EXPECT_EQ(cgroup_memory(text, root), std::nullopt) << text;
  }
}

TEST(UsableMemory, IsSomeAndNotMoreThanTheMachineHas) {
  EXPECT_GT(usable_memory(), 1u << 20);
  EXPECT_LE(usable_memory(), static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                                 static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
}

}  // namespace
}  // namespace quire
