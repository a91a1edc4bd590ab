// Files that are there whole or not at all, and their owner's alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "quire/result.h"

namespace quire {

// An open file descriptor.
class FileHandle {
 public:
  explicit FileHandle(int descriptor) : descriptor_(descriptor) {}
  FileHandle(FileHandle&& other) noexcept;
  FileHandle& operator=(FileHandle&& other) noexcept;
  ~FileHandle();
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// Written under a name of its own, then put in the place of what was called `path`. Let go before that, it leaves
// nothing behind; what a killed process left is removed by the next one that writes there an hour later.
class DurableFile {
 public:
  static Result<DurableFile> create(const std::string& path);
  DurableFile(DurableFile&&) noexcept = default;
  DurableFile& operator=(DurableFile&&) = delete;
  ~DurableFile();

  Result<void> write(std::span<const std::byte> bytes);
  // On disk, under its name.
  Result<void> commit();
  std::uint64_t bytes() const { return bytes_; }

 private:
  DurableFile(std::string path, std::string writing, FileHandle file);

  std::string path_, writing_;  // the second is empty once it has gone
  FileHandle file_;
  std::uint64_t bytes_ = 0;
};

// An ordinary file, read from its start; links are not followed.
class SequentialFile {
 public:
  static Result<SequentialFile> open(const std::string& path);

  std::uint64_t bytes() const { return bytes_; }  // when it was opened
  // All of `into`, or an error.
  Result<void> read(std::span<std::byte> into);

 private:
  SequentialFile(std::string path, FileHandle file, std::uint64_t bytes);

  std::string path_;
  FileHandle file_;
  std::uint64_t bytes_;
};

}  // namespace quire
