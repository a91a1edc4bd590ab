#include "server/models.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "core/fail.h"

namespace quire::server {

Result<void> Models::add(std::shared_ptr<const Model> model, std::string name, const EngineOptions& options) {
  if (name.empty()) name = std::filesystem::path(model->info().path).stem().string();
  for (const auto& other : models_) {
    if (other->name == name)
      return fail(Errc::invalid_argument, "two models called '{}'; give one another --alias", name);
  }
  QUIRE_TRY(Engine engine, Engine::create(std::move(model), options));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  models_.push_back(std::make_unique<ServedModel>(
      ServedModel{std::move(name), std::chrono::duration_cast<std::chrono::seconds>(now).count(), std::move(engine)}));
  return {};
}

Api<ServedModel*> Models::find(const std::string& name) const {
  if (models_.empty()) return ApiError{503, "the server is stopping", "", "", 1};
  if (name.empty()) return models_.front().get();
  std::string names;
  for (const auto& model : models_) {
    if (model->name == name) return model.get();
    names += (names.empty() ? "" : ", ") + model->name;
  }
  return ApiError{404, fmt::format("no model '{}' here; there is: {}", name.substr(0, 100), names), "model",
                  "model_not_found", 0};
}

}  // namespace quire::server
