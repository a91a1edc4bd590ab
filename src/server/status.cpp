// What a server says of itself.
#include <algorithm>
#include <chrono>

#include "core/fail.h"
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

Json slot_json(const ServedModel& served, std::int64_t id) {
  return {{"id", id}, {"n_ctx", served.engine.context()}, {"speculative", false}, {"is_processing", false}};
}

// llama.cpp's slots: what runs, and room for as many more sequences as could.
Json slots_json(const ServedModel& served) {
  Json slots = Json::array();
  for (const RequestView& request : served.engine.requests()) {
    if (!request.running) continue;
    Json slot = slot_json(served, std::ssize(slots));
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
  const std::int64_t most = served.engine.stats().max_running;
  while (std::ssize(slots) < most) slots.push_back(slot_json(served, std::ssize(slots)));
  return slots;
}

Api<Json> slots_of(const HttpRequest& request, const ServedModel& served) {
  Json slots = slots_json(served);
  const bool free =
      std::any_of(slots.begin(), slots.end(), [](const Json& slot) { return slot["is_processing"] == false; });
  if (!free && request.query.find("fail_on_no_slot=1") != std::string::npos) {
    return ApiError{503, "no slot is free", "", "no_slot", 1};
  }
  return slots;
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
                             {"total_slots", first.engine.stats().max_running},
                             {"has_chat_template", first.model().has_chat_template()}});
  });
  router.add(
      "GET", "/slots",
      [serving](const ExchangePtr& exchange) {
        answer_or_refuse(exchange, [&]() -> Api<void> {
          QUIRE_TRY(const ServedModel* const served, serving.models.find(""));
          QUIRE_TRY(const Json slots, slots_of(exchange->request, *served));
          respond_json(*exchange, slots);
          return {};
        });
      },
      Access::admin);
  router.add("GET", "/metrics", [serving](const ExchangePtr& exchange) {
    exchange->respond({200, serving.metrics.text(), "text/plain; version=0.0.4; charset=utf-8", {}});
  });
}

}  // namespace quire::server
