#include "core/durable_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace quire {
namespace {

namespace fs = std::filesystem;

class DurableFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "quire-durable-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path() const { return (folder_ / "file").string(); }
  std::string read() const {
    std::ifstream in(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::ptrdiff_t entries() const { return std::distance(fs::directory_iterator(folder_), fs::directory_iterator()); }

  fs::path folder_;
};

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST_F(DurableFileTest, IsThereWholeOrNotAtAll) {
  {
    auto file = DurableFile::create(path());
    ASSERT_TRUE(file.ok()) << file.error().message;
    ASSERT_TRUE(file->write(bytes("first")).ok());
    EXPECT_FALSE(fs::exists(path()));
    ASSERT_TRUE(file->commit().ok());
  }
  EXPECT_EQ(read(), "first");
  struct stat status {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  {
    auto file = DurableFile::create(path());
    ASSERT_TRUE(file.ok() && file->write(bytes("never finished")).ok());
  }
  EXPECT_EQ(read(), "first") << "what is let go changes nothing";
  EXPECT_EQ(entries(), 1) << "and leaves nothing behind";
  auto file = DurableFile::create(path());
  ASSERT_TRUE(file.ok() && file->write(bytes("sec")).ok() && file->write(bytes("ond")).ok() && file->commit().ok());
  EXPECT_EQ(file->bytes(), 6u);
  EXPECT_EQ(read(), "second");
}

TEST_F(DurableFileTest, AFullDiskIsAnError) {
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit little{100, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  {
    auto file = DurableFile::create(path());
    ASSERT_TRUE(file.ok());
    const auto written = file->write(std::vector<std::byte>(1000));
    ::setrlimit(RLIMIT_FSIZE, &old);
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.error().code, Errc::io);
  }
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(entries(), 0);
  EXPECT_EQ(DurableFile::create((folder_ / "no" / "folder").string()).error().code, Errc::io);
}

TEST_F(DurableFileTest, WhatAKilledProcessLeftIsRemovedLater) {
  const fs::path abandoned = folder_ / ".file.0123456789abcdef.writing", young = folder_ / ".other.0.writing";
  for (const fs::path& left : {abandoned, young}) std::ofstream(left) << "half";
  fs::last_write_time(abandoned, fs::file_time_type::clock::now() - std::chrono::hours(2));
  ASSERT_TRUE(DurableFile::create(path()).ok());
  EXPECT_FALSE(fs::exists(abandoned));
  EXPECT_TRUE(fs::exists(young));
}

TEST_F(DurableFileTest, OnlyOrdinaryFilesAreRead) {
  EXPECT_EQ(SequentialFile::open(path()).error().code, Errc::not_found);
  EXPECT_EQ(SequentialFile::open(folder_.string()).error().code, Errc::io);
  std::ofstream(path()) << "four";
  fs::create_symlink(path(), folder_ / "link");
  EXPECT_EQ(SequentialFile::open((folder_ / "link").string()).error().code, Errc::io);
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(SequentialFile::open((folder_ / "pipe").string()).error().code, Errc::io);
  auto file = SequentialFile::open(path());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->bytes(), 4u);
  std::vector<std::byte> three(3);
  ASSERT_TRUE(file->read(three).ok());
  EXPECT_EQ(file->read(three).error().code, Errc::bad_file) << "one byte is left";
}

}  // namespace
}  // namespace quire
