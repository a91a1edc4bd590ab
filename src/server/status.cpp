// What a server says of itself.
#include <algorithm>
#include <chrono>

#include "core/fail.h"
#include "quire/version.h"
#include "server/api.h"

namespace quire::server {
namespace {

Json model_json(const ModelView& model) {
  const ModelInfo& info = model.info;
  return {{"id", model.name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "quire"},
          {"loaded", model.served != nullptr},
          {"meta",
           {{"architecture", info.architecture},
            {"n_params", info.parameters},
            {"size", info.weights_bytes},
            {"n_vocab", info.vocabulary},
            {"n_embd", info.width},
            {"n_ctx", model.context},
            {"n_ctx_train", info.context}}}};
}

Json slot_json(const ModelView& model, std::int64_t id) {
  return {{"id", id}, {"n_ctx", model.context}, {"speculative", false}, {"is_processing", false}};
}

// llama.cpp's slots: what runs, and room for as many more sequences as could.
Json slots_json(const ModelView& model) {
  Json slots = Json::array();
  const auto requests = model.served == nullptr ? std::vector<RequestView>() : model.served->engine.requests();
  for (const RequestView& request : requests) {
    if (!request.running) continue;
    Json slot = slot_json(model, std::ssize(slots));
    slot["id_task"] = request.id;
    slot["speculative"] = request.speculates;
    slot["is_processing"] = true;
    slot["n_prompt_tokens"] = request.prompt_tokens;
    slot["n_prompt_tokens_cache"] = request.cached_tokens;
    slot["n_prompt_tokens_processed"] = request.prompt_done;
    const std::int64_t most = request.max_tokens * request.choices;
    slot["next_token"] = {{"has_next_token", true},
                          {"n_decoded", request.generated_tokens},
                          {"n_remain", request.max_tokens < 0 ? -1 : most - request.generated_tokens}};
    slots.push_back(std::move(slot));
  }
  while (std::ssize(slots) < model.stats.max_running) slots.push_back(slot_json(model, std::ssize(slots)));
  return slots;
}

Api<Json> slots_of(const HttpRequest& request, const ModelView& model) {
  Json slots = slots_json(model);
  const bool free =
      std::any_of(slots.begin(), slots.end(), [](const Json& slot) { return slot["is_processing"] == false; });
  if (!free && request.parameter("fail_on_no_slot") == "1") {
    return ApiError{503, "no slot is free", "", "no_slot", 1};
  }
  return slots;
}

Api<Json> props_of(const HttpRequest&, const ModelView& model) {
  return Json{{"build_info", "quire " QUIRE_VERSION},
              {"model_alias", model.name},
              {"n_ctx", model.context},
              {"total_slots", model.stats.max_running},
              {"has_chat_template", model.info.has_chat_template}};
}

// Of the model that ?model= names, else of the first.
template <auto kAnswer>
Handler of_a_model(const Serving& serving) {
  return [serving](const ExchangePtr& exchange) {
    answer_or_refuse(exchange, [&]() -> Api<void> {
      QUIRE_TRY(const ModelView model, serving.models.look(exchange->request.parameter("model")));
      QUIRE_TRY(const Json document, kAnswer(exchange->request, model));
      respond_json(*exchange, document);
      return {};
    });
  };
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
    for (const ModelView& model : serving.models.look_at_all()) data.push_back(model_json(model));
    respond_json(*exchange, {{"object", "list"}, {"data", std::move(data)}});
  };
  router.add("GET", "/v1/models", list);
  router.add("GET", "/models", list);
  router.add("GET", "/props", of_a_model<props_of>(serving));
  router.add("GET", "/slots", of_a_model<slots_of>(serving), Access::admin);
  router.add("GET", "/metrics", [serving](const ExchangePtr& exchange) {
    exchange->respond({200, serving.metrics.text(), "text/plain; version=0.0.4; charset=utf-8", {}});
  });
}

}  // namespace quire::server
