// The models this server has, by the names clients call them. A model is loaded when somebody first asks for it, and
// may be unloaded when others need its room and nobody uses it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "quire/engine.h"
#include "server/api_error.h"

namespace quire::server {

// A model that is loaded.
struct ServedModel {
  std::string name;
  std::shared_ptr<const Model> loaded;
  Engine engine;

  const Model& model() const { return *loaded; }
};
// As long as a request holds it, the model stays.
using ServedPtr = std::shared_ptr<ServedModel>;

// A model as somebody finds it who looks.
struct ModelView {
  std::string name;
  ModelInfo info;
  std::int64_t created;  // seconds since 1970: when the server took it up
  std::int64_t context;
  std::uint64_t bytes;  // it counts for while it is loaded
  ServedPtr served;     // null where it is not loaded
  std::uint64_t loads;  // so far
  EngineStats stats;    // totals since the server started, however often it was loaded
};

struct ModelsOptions {
  EngineOptions engine;     // of each
  LoadOptions load;         // of each
  bool on_demand = false;   // each is loaded when somebody asks for it; else the first, and only one, at the start
  std::uint64_t bytes = 0;  // weights and caches of the models that are loaded at a time; 0: no limit
  std::chrono::milliseconds patience{1000};  // for a model to come free when another needs its room
  std::function<void(const std::string& line)> log;
};

class Models {
 public:
  explicit Models(ModelsOptions options);
  ~Models();
  Models(const Models&) = delete;
  Models& operator=(const Models&) = delete;

  // Looks at the file. An empty name means the file's.
  Result<void> add(const std::string& path, std::string name = "");
  // After all were added.
  Result<void> start();

  // Calls back with the model called so, the first one where the name is empty: at once, or from another thread when
  // it was loaded.
  using Then = std::function<void(Api<ServedPtr>)>;
  void use(const std::string& name, Then then);

  // The same without loading it.
  Api<ModelView> look(const std::string& name) const;
  std::vector<ModelView> look_at_all() const;

  // Cancels all they are doing, even for those who hold them, and waits for a model that is just being loaded.
  void shut_down();

 private:
  struct Entry {
    std::string name;
    ModelInfo info;
    std::int64_t created;
    EngineOptions options;
    ServedPtr served;
    std::uint64_t used = 0;  // when it was last asked for
    std::uint64_t loads = 0;
    std::vector<Then> waiting;  // until it is loaded
    EngineStats past;           // of engines it had before

    std::uint64_t bytes() const { return info.weights_bytes + options.cache.bytes; }
  };

  Api<Entry*> find(const std::string& name) const;
  ModelView view_of(const Entry& entry) const;
  void run();
  Result<ServedPtr> open(const Entry& entry) const;
  Api<ServedPtr> load(const Entry& entry);
  Api<void> make_room(const Entry& entry);
  bool take_unused(std::uint64_t needed, std::vector<ServedPtr>& leaving);
  void log(const std::string& line) const;

  const ModelsOptions options_;
  std::vector<std::unique_ptr<Entry>> entries_;  // all there before the thread starts
  mutable std::mutex mutex_;                     // over what changes in them, and over what follows
  std::condition_variable asked_;
  std::deque<Entry*> to_load_;
  std::uint64_t uses_ = 0;
  bool stopping_ = false;
  std::thread loader_;  // alone loads and unloads
};

// Of so many bytes for all models the bytes for each one's cache: what all weights leave, in equal parts, but no less
// than an eighth of the whole while the model's own weights leave that.
std::vector<std::uint64_t> cache_shares(std::uint64_t bytes, const std::vector<std::uint64_t>& weights);

}  // namespace quire::server
