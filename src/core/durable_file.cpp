#include "core/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <random>
#include <utility>

#include "core/fail.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEnding = ".writing";
constexpr std::chrono::hours kAbandoned{1};

fs::path folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

// Whoever is writing writes all the time: a file that was left alone for so long is nobody's.
void remove_abandoned(const fs::path& folder) {
  std::error_code ignored;
  for (fs::directory_iterator at(folder, ignored), end; !ignored && at != end; at.increment(ignored)) {
    const fs::path& path = at->path();
    if (path.filename().string().front() != '.' || path.extension() != kEnding) continue;
    std::error_code gone;
    const auto written = fs::last_write_time(path, gone);
    if (!gone && fs::file_time_type::clock::now() - written > kAbandoned) fs::remove(path, gone);
  }
}

}  // namespace

FileHandle::FileHandle(FileHandle&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileHandle& FileHandle::operator=(FileHandle&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileHandle::~FileHandle() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

DurableFile::DurableFile(std::string path, std::string writing, FileHandle file)
    : path_(std::move(path)), writing_(std::move(writing)), file_(std::move(file)) {}

Result<DurableFile> DurableFile::create(const std::string& path) {
  const fs::path folder = folder_of(path);
  remove_abandoned(folder);
  std::random_device random;
  std::string writing = fmt::format("{}/.{}.{:08x}{:08x}{}", folder.string(), fs::path(path).filename().string(),
                                    random(), random(), kEnding);
  FileHandle file(::open(writing.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (file.get() < 0) return fail(Errc::io, "{}: cannot write: {}", path, std::strerror(errno));
  return DurableFile(path, std::move(writing), std::move(file));
}

DurableFile::~DurableFile() {
  if (!writing_.empty()) ::unlink(writing_.c_str());
}

Result<void> DurableFile::write(std::span<const std::byte> bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t done = ::write(file_.get(), bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return fail(Errc::io, "{}: cannot write: {}", path_, std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
  return {};
}

Result<void> DurableFile::commit() {
  if (::fsync(file_.get()) != 0 || ::rename(writing_.c_str(), path_.c_str()) != 0) {
    return fail(Errc::io, "{}: cannot write: {}", path_, std::strerror(errno));
  }
  writing_.clear();
  const FileHandle folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 || ::fsync(folder.get()) != 0) {
    return fail(Errc::io, "{}: written, but its name may not outlive a crash: {}", path_, std::strerror(errno));
  }
  return {};
}

SequentialFile::SequentialFile(std::string path, FileHandle file, std::uint64_t bytes)
    : path_(std::move(path)), file_(std::move(file)), bytes_(bytes) {}

Result<SequentialFile> SequentialFile::open(const std::string& path) {
  FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0) {
    return fail(errno == ENOENT ? Errc::not_found : Errc::io, "{}: cannot open: {}", path, std::strerror(errno));
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return fail(Errc::io, "{}: not a regular file", path);
  }
  return SequentialFile(path, std::move(file), static_cast<std::uint64_t>(status.st_size));
}

Result<void> SequentialFile::read(std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t done = ::read(file_.get(), into.data(), into.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return fail(Errc::io, "{}: cannot read: {}", path_, std::strerror(errno));
    if (done == 0) return fail(Errc::bad_file, "{}: ends too early", path_);
    into = into.subspan(static_cast<std::size_t>(done));
  }
  return {};
}

}  // namespace quire
