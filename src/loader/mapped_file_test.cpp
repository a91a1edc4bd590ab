#include "loader/mapped_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace quire {
namespace {

TEST(MappedFile, ReadsWhatWasWritten) {
  const std::string path = testing::TempDir() + "/mapped_file_test";
  std::ofstream(path) << "pages";
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(file->bytes().size(), 5u);
  EXPECT_EQ(static_cast<char>(file->bytes()[4]), 's');
  MappedFile moved = std::move(*file);
  EXPECT_EQ(moved.bytes().size(), 5u);
  std::filesystem::remove(path);
  EXPECT_EQ(static_cast<char>(moved.bytes()[0]), 'p');
}

TEST(MappedFile, SaysWhatIsWrong) {
  auto absent = MappedFile::open("/nonexistent/model.gguf");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, Errc::not_found);
  EXPECT_NE(absent.error().message.find("/nonexistent/model.gguf"), std::string::npos);

  auto folder = MappedFile::open(testing::TempDir());
  ASSERT_FALSE(folder.ok());
  EXPECT_NE(folder.error().message.find("not a regular file"), std::string::npos);

  const std::string path = testing::TempDir() + "/mapped_file_empty";
  std::ofstream{path};
  auto empty = MappedFile::open(path);
  ASSERT_FALSE(empty.ok());
  EXPECT_NE(empty.error().message.find("empty"), std::string::npos);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace quire
