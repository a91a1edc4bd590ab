// What a server says of itself.
#include <chrono>

#include "quire/version.h"
#include "server/api.h"

namespace quire::server {
namespace {

Json model_json(const ServedModel& served) {
  const ModelInfo& info = served.model().info();
  return {{"id", served.name},
          {"object", "model"},
          {"created", served.created},
          {"owned_by", "quire"},
          {"meta",
           {{"architecture", info.architecture},
            {"n_params", info.parameters},
            {"size", info.weights_bytes},
            {"n_vocab", info.vocabulary},
            {"n_embd", info.width},
            {"n_ctx", served.engine.context()},
            {"n_ctx_train", info.context}}}};
}

}  // namespace

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void respond_json(Exchange& exchange, const Json& document) {
  exchange.respond({200, written(document), "application/json", {}});
}

void add_status(Router& router, Serving serving) {
  router.add("GET", "/health", [](const ExchangePtr& exchange) { respond_json(*exchange, {{"status", "ok"}}); });
  const Handler list = [serving](const ExchangePtr& exchange) {
    Json data = Json::array();
    for (const auto& model : serving.models.all()) data.push_back(model_json(*model));
    respond_json(*exchange, {{"object", "list"}, {"data", std::move(data)}});
  };
  router.add("GET", "/v1/models", list);
  router.add("GET", "/models", list);
  router.add("GET", "/props", [serving](const ExchangePtr& exchange) {
    const ServedModel& first = *serving.models.all().front();
    respond_json(*exchange, {{"build_info", "quire " QUIRE_VERSION},
                             {"model_alias", first.name},
                             {"n_ctx", first.engine.context()},
                             {"has_chat_template", first.model().has_chat_template()}});
  });
  router.add("GET", "/metrics", [serving](const ExchangePtr& exchange) {
    exchange->respond({200, serving.metrics.text(), "text/plain; version=0.0.4; charset=utf-8", {}});
  });
}

}  // namespace quire::server
