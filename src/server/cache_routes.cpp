// The cache made visible: what it holds, what it would find, and forgetting it.
#include "server/cache_routes.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "server/answer.h"
#include "server/conversation.h"
#include "server/generation.h"

namespace quire::server {
namespace {

constexpr std::chrono::minutes kUsualTerm{5};  // of a pin
constexpr std::array<const char*, 5> kStates{"free", "open", "sealed", "shared", "cached"};
const char* name_of(CacheView::State state) { return kStates[static_cast<std::size_t>(state)]; }

Json totals_json(const ModelView& model) {
  const EngineStats& s = model.stats;
  return {{"model", model.name},
          {"loaded", model.served != nullptr},
          {"running", s.running},
          {"waiting", s.waiting},
          {"tokens",
           {{"prompt", s.prompt_tokens},
            {"cached", s.cached_tokens},
            {"generated", s.generated_tokens},
            {"computed", s.computed_tokens}}},
          {"pages", {{"open", s.pages_open}, {"sealed", s.pages_sealed}, {"shared", s.pages_shared}}},
          {"bytes", {{"used", s.bytes_used}, {"cached", s.bytes_cached}, {"budget", s.bytes_budget}}},
          {"first_tokens", s.first_tokens},
          {"first_token_ms", s.first_token_ms},
          {"preemptions", s.preemptions}};
}

// Page by page, sequence by sequence, prefix by prefix.
void add_details(Json& document, const CacheView& view) {
  std::array<std::int64_t, kStates.size()> by_state{};
  Json pages = Json::array(), sequences = Json::array(), tree = Json::array();
  for (const CacheView::Page& page : view.pages) {
    ++by_state[static_cast<std::size_t>(page.state)];
    Json entry{{"state", name_of(page.state)}, {"tokens", page.tokens}, {"bytes", page.bytes}};
    if (!page.sequences.empty()) entry["sequences"] = page.sequences;
    if (page.named) entry["named"] = true;
    pages.push_back(std::move(entry));
  }
  for (const CacheView::Sequence& s : view.sequences) {
    sequences.push_back({{"id", s.id}, {"tokens", s.tokens}, {"bytes", s.bytes}, {"shared_bytes", s.shared_bytes}});
  }
  for (const CacheView::Prefix& p : view.prefixes) {
    tree.push_back({{"id", p.id},
                    {"parent", p.parent < 0 ? Json() : Json(p.parent)},
                    {"tenant", p.tenant},
                    {"tokens", p.tokens},
                    {"uses", p.uses},
                    {"idle_s", p.idle_s},
                    {"in_use", p.in_use}});
  }
  Json& counts = document["pages"] = Json::object();
  for (std::size_t i = 0; i < kStates.size(); ++i) counts[kStates[i]] = by_state[i];
  document["tier"] = "memory";
  document["page_list"] = std::move(pages);
  document["sequences"] = std::move(sequences);
  document["tree"] = std::move(tree);
}

}  // namespace

Api<Asked> prompt_from(const Fields& fields, const Caller& caller, const Model& model) {
  QUIRE_TRY(Asked asked, asked_from(fields, caller));
  if (fields.has("messages")) {
    QUIRE_TRY(asked.request.tokens, chat_prompt_from(fields, model));
  } else {
    QUIRE_TRY(auto prompts, prompts_from(fields, "prompt", model));
    if (prompts.size() != 1) return bad_field("prompt", "is a list; expected one prompt at a time");
    asked.request.tokens = std::move(prompts.front());
  }
  asked.request.max_tokens = 0;
  asked.request.format = {};
  return asked;
}

namespace {

Api<Json> look_up(const Fields& fields, const Caller& caller, const ModelView& model) {
  if (model.served == nullptr) {  // and how many tokens the prompt has only the model could tell
    return Json{{"model", model.name},
                {"prompt_tokens", nullptr},
                {"cached_tokens", 0},
                {"miss", {{"reason", "not_loaded"}, {"first_token", 0}}}};
  }
  QUIRE_TRY(Asked asked, prompt_from(fields, caller, model.served->model()));
  auto found = model.served->engine.look_up(std::move(asked.request));
  if (!found.ok()) return to_api_error(found.error());
  return Json{{"model", model.name},
              {"prompt_tokens", found->prompt_tokens},
              {"cached_tokens", found->cached_tokens},
              {"miss", {{"reason", spelled_miss(found->miss)}, {"first_token", found->cached_tokens}}}};
}

class PinSpelling : public Spelling {
 public:
  PinSpelling(std::string model_name, std::chrono::milliseconds term)
      : model_name_(std::move(model_name)), term_(term) {}

  void token(Exchange&, int, const StreamEvent&) override {}
  void close(Exchange&, const Answer&) override {}
  void fail(Exchange&, const ApiError&) override {}
  Json whole(const Answer& answer) override {
    return {{"model", model_name_},
            {"prompt_tokens", answer.report.prompt_tokens},
            {"cached_tokens", answer.report.cached_tokens},
            {"expires_in", std::chrono::duration<double>(term_).count()}};
  }

 private:
  std::string model_name_;
  std::chrono::milliseconds term_;
};

// What is not there of the prompt is computed; then it stays.
Api<void> pin(const ExchangePtr& exchange, const Fields& fields, const ServedPtr& served, const Serving& serving) {
  QUIRE_TRY(Asked asked, prompt_from(fields, exchange->caller, served->model()));
  auto& [request, streaming] = asked;
  if (streaming.streamed) return bad_field("stream", "a pin is answered in one piece");
  if (request.keep.count() == 0) request.keep = kUsualTerm;
  Generation::Plan plan;
  plan.spelling = std::make_unique<PinSpelling>(served->name, request.keep);
  plan.requests.push_back(std::move(request));
  Generation::start(exchange, served, std::move(plan), serving.metrics);
  return {};
}

Api<Json> unpin(const Fields& fields, const Caller& caller, const ModelView& model) {
  if (model.served == nullptr) return Json{{"model", model.name}, {"unpinned", 0}};
  QUIRE_TRY(Asked asked, prompt_from(fields, caller, model.served->model()));
  auto ended = model.served->engine.unpin(std::move(asked.request));
  if (!ended.ok()) return to_api_error(ended.error());
  return Json{{"model", model.name}, {"unpinned", *ended}};
}

// What changes nothing loads no model.
template <auto kAnswer>
Handler answered_by(const Serving& serving) {
  return [serving](const ExchangePtr& exchange) {
    answer_or_refuse(exchange, [&]() -> Api<void> {
      QUIRE_TRY(const Json body, parse_object(exchange->request.body));
      const Fields fields(body);
      QUIRE_TRY(const std::string name, model_name_from(fields));
      QUIRE_TRY(const ModelView model, serving.models.look(name));
      if (!fields.has("messages") && !fields.has("prompt")) return bad_field("prompt", "is missing");
      QUIRE_TRY(const Json document, kAnswer(fields, exchange->caller, model));
      respond_json(*exchange, document);
      return {};
    });
  };
}

Json shown(const HttpRequest& request, const ModelView& model) {
  Json document = totals_json(model);
  if (request.parameter("detail") == "pages") {
    add_details(document, model.served == nullptr ? CacheView() : model.served->engine.cache_view());
  }
  return document;
}

Json forgotten(const HttpRequest&, const ModelView& model) {
  if (model.served != nullptr) model.served->engine.forget_cached();
  return {{"model", model.name}, {"bytes_forgotten", model.stats.bytes_cached}};
}

// Of every model, or of the one that ?model= names.
template <auto kAnswer>
Handler of_each_model(const Serving& serving) {
  return [serving](const ExchangePtr& exchange) {
    answer_or_refuse(exchange, [&]() -> Api<void> {
      const std::string name = exchange->request.parameter("model");
      std::vector<ModelView> models;
      if (name.empty()) {
        models = serving.models.look_at_all();
      } else {
        QUIRE_TRY(ModelView named, serving.models.look(name));
        models.push_back(std::move(named));
      }
      Json all = Json::array();
      for (const ModelView& model : models) all.push_back(kAnswer(exchange->request, model));
      respond_json(*exchange, {{"models", std::move(all)}});
      return {};
    });
  };
}

}  // namespace

void add_cache(Router& router, Serving serving) {
  router.add("GET", "/v1/cache", of_each_model<shown>(serving), Access::admin);
  router.add("DELETE", "/v1/cache", of_each_model<forgotten>(serving), Access::admin);
  router.add("POST", "/v1/cache/lookup", answered_by<look_up>(serving));
  router.add("POST", "/v1/cache/unpin", answered_by<unpin>(serving));
  router.add("POST", "/v1/cache/pin", with_model(serving, pin));
}

}  // namespace quire::server
