// The models this server has, by the names clients call them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "quire/engine.h"
#include "server/api_error.h"

namespace quire::server {

struct ServedModel {
  std::string name;
  std::int64_t created;  // seconds since 1970: when the server took it up
  Engine engine;

  const Model& model() const { return engine.model(); }
};

class Models {
 public:
  Result<void> add(std::shared_ptr<const Model> model, std::string name, const EngineOptions& options);
  // An empty name means the first one.
  Api<ServedModel*> find(const std::string& name) const;
  const std::vector<std::unique_ptr<ServedModel>>& all() const { return models_; }
  void shut_down() { models_.clear(); }  // cancels all they are doing

 private:
  std::vector<std::unique_ptr<ServedModel>> models_;
};

}  // namespace quire::server
