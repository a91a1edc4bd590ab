// Where saved pages lie, and the thread that reads and writes them: disks may be slow, and the threads of connections
// carry everybody's streams.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "server/api_error.h"
#include "server/http.h"

namespace quire::server {

class SavedFiles {
 public:
  // A folder of this program's own, made where there is none. Empty: nothing can be saved.
  static Result<std::unique_ptr<SavedFiles>> open(const std::string& folder);
  ~SavedFiles() { stop(); }
  SavedFiles(const SavedFiles&) = delete;
  SavedFiles& operator=(const SavedFiles&) = delete;

  // Where a caller's file of that name lies. Callers with other keys, and other salts of one caller, have folders of
  // their own, by names that stay the same from start to start and tell nothing.
  Api<std::string> path(const Caller& caller, std::string_view salt, const std::string& filename) const;
  // Makes the folder it lies in.
  static Api<void> make_folder(const std::string& path);

  // Answers with what `work` returns, after the work that came before it.
  void answer(const ExchangePtr& exchange, std::function<Api<Json>()> work);
  // What has begun is finished; what has not goes unanswered. To be called before the server and its models go.
  void stop();

 private:
  struct Task {
    ExchangePtr exchange;
    std::function<Api<Json>()> work;
  };

  explicit SavedFiles(std::string folder);
  void run();

  std::string folder_;
  std::mutex mutex_;
  std::condition_variable signal_;
  std::deque<Task> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace quire::server
