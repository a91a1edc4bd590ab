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

Json stats_json(const ServedModel& served) {
  const EngineStats s = served.engine.stats();
  return {{"model", served.name},
          {"running", s.running},
          {"waiting", s.waiting},
          {"tokens",
           {{"prompt", s.prompt_tokens},
            {"cached", s.cached_tokens},
            {"generated", s.generated_tokens},
            {"computed", s.computed_tokens}}},
          {"pages", {{"open", s.pages_open}, {"sealed", s.pages_sealed}, {"shared", s.pages_shared}}},
          {"bytes", {{"used", s.bytes_used}, {"cached", s.bytes_cached}, {"budget", s.bytes_budget}}},
          {"preemptions", s.preemptions}};
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

void add_cache(Router& router, Serving serving) {
  router.add(
      "GET", "/v1/cache",
      [serving](const ExchangePtr& exchange) {
        Json all = Json::array();
        for (const auto& model : serving.models.all()) all.push_back(stats_json(*model));
        respond_json(*exchange, {{"models", std::move(all)}});
      },
      Access::admin);
  router.add(
      "DELETE", "/v1/cache",
      [serving](const ExchangePtr& exchange) {
        Json all = Json::array();
        for (const auto& model : serving.models.all()) {
          const std::uint64_t before = model->engine.stats().bytes_cached;
          model->engine.forget_cached();
          all.push_back({{"model", model->name}, {"bytes_forgotten", before}});
        }
        respond_json(*exchange, {{"models", std::move(all)}});
      },
      Access::admin);
}

}  // namespace quire::server
