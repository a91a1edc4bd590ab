#include "server/saved_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/fail.h"
#include "core/hash.h"
#include "core/hex.h"
#include "server/fields.h"

namespace quire::server {
namespace {

constexpr std::size_t kLongestName = 128;
constexpr std::size_t kMostWaiting = 16;

// No name leads out of its folder, and none is hidden or taken for one that is being written.
bool is_plain(const std::string& name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kLongestName && name.front() != '.' && std::ranges::all_of(name, plain);
}

HttpResponse response_of(const std::function<Api<Json>()>& work) {
  try {
    const auto answer = work();
    if (!answer.ok()) return to_response(answer.error());
    return {200, written(*answer), "application/json", {}};
  } catch (const std::bad_alloc&) {
    return to_response({503, "out of memory", "", "", 1});
  } catch (const std::exception&) {
    return to_response({500, "internal error", "", "", 0});
  }
}

}  // namespace

SavedFiles::SavedFiles(std::string folder) : folder_(std::move(folder)) {
  if (!folder_.empty()) thread_ = std::thread([this] { run(); });
}

Result<std::unique_ptr<SavedFiles>> SavedFiles::open(const std::string& folder) {
  if (!folder.empty() && ::mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return fail(Errc::io, "--cache-save-path {}: cannot be made: {}", folder, std::strerror(errno));
  }
  struct stat status {};
  if (!folder.empty() && (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
                          ::access(folder.c_str(), R_OK | W_OK | X_OK) != 0)) {
    return fail(Errc::io, "--cache-save-path {}: expected a folder that this program may write to", folder);
  }
  return std::unique_ptr<SavedFiles>(new SavedFiles(folder));
}

Api<std::string> SavedFiles::path(const Caller& caller, std::string_view salt, const std::string& filename) const {
  if (folder_.empty()) {
    return ApiError{501, "this server saves no pages; start it with --cache-save-path FOLDER", "", "not_supported", 0};
  }
  if (!is_plain(filename)) {
    return bad_field("filename", "expected 1 to {} letters, digits, '.', '_' or '-', and no '.' in front",
                     kLongestName);
  }
  Hasher hasher;
  hasher.update(caller.owner.size()).update(std::as_bytes(std::span(caller.owner)));
  const Digest digest = hasher.update(std::as_bytes(std::span(salt))).finish();
  return fmt::format("{}/{}/{}", folder_, to_hex(std::span(digest).first(16)), filename);
}

Api<void> SavedFiles::make_folder(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (::mkdir(folder.c_str(), S_IRWXU) == 0 || errno == EEXIST) return {};
  return ApiError{500, fmt::format("no folder for the file: {}", std::strerror(errno)), "", "", 0};
}

void SavedFiles::answer(const ExchangePtr& exchange, std::function<Api<Json>()> work) {
  {
    const std::scoped_lock lock(mutex_);
    if (tasks_.size() < kMostWaiting && !stopping_) {
      tasks_.push_back({exchange, std::move(work)});
      signal_.notify_one();
      return;
    }
  }
  exchange->respond(to_response({429, "many files are being saved or restored; try again later", "", "overloaded", 1}));
}

void SavedFiles::run() {
  while (true) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      signal_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    HttpResponse response = response_of(task.work);
    // The connection's own thread has it last.
    Exchange& exchange = *task.exchange;
    exchange.post([keep = std::move(task.exchange), response = std::move(response)] { keep->respond(response); });
  }
}

void SavedFiles::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    signal_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  tasks_.clear();
}

}  // namespace quire::server
