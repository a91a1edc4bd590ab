// The cache made visible: what it holds, what it would find, and forgetting it.
#include <algorithm>
#include <array>
#include <chrono>

#include "server/answer.h"
#include "server/api.h"
#include "server/conversation.h"
#include "server/generation.h"
#include "server/request_fields.h"

namespace quire::server {
namespace {

constexpr std::chrono::minutes kUsualTerm{5};  // of a pin
constexpr std::array<const char*, 5> kStates{"free", "open", "sealed", "shared", "cached"};
const char* name_of(CacheView::State state) { return kStates[static_cast<std::size_t>(state)]; }

Json totals_json(const ServedModel& served) {
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

// A prompt that is not to be answered: "messages" or "prompt".
Api<Asked> prompt_from(const Fields& fields, const Caller& caller, const Serving& serving) {
  QUIRE_TRY(Asked asked, asked_from(fields, caller, serving.models));
  const Model& model = asked.served->model();
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

Api<Json> look_up(const Fields& fields, const Caller& caller, const Serving& serving) {
  QUIRE_TRY(Asked asked, prompt_from(fields, caller, serving));
  auto found = asked.served->engine.look_up(std::move(asked.request));
  if (!found.ok()) return to_api_error(found.error());
  return Json{{"model", asked.served->name},
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
Api<void> pin(const ExchangePtr& exchange, const Serving& serving) {
  QUIRE_TRY(const Json body, parse_object(exchange->request.body));
  QUIRE_TRY(Asked asked, prompt_from(Fields(body), exchange->caller, serving));
  auto& [served, request, streaming] = asked;
  if (streaming.streamed) return bad_field("stream", "a pin is answered in one piece");
  if (request.keep.count() == 0) request.keep = kUsualTerm;
  Generation::Plan plan;
  plan.spelling = std::make_unique<PinSpelling>(served->name, request.keep);
  plan.requests.push_back(std::move(request));
  Generation::start(exchange, served->engine, std::move(plan), serving.metrics);
  return {};
}

Api<Json> unpin(const Fields& fields, const Caller& caller, const Serving& serving) {
  QUIRE_TRY(Asked asked, prompt_from(fields, caller, serving));
  auto ended = asked.served->engine.unpin(std::move(asked.request));
  if (!ended.ok()) return to_api_error(ended.error());
  return Json{{"model", asked.served->name}, {"unpinned", *ended}};
}

template <auto kAnswer>
Handler answered_by(const Serving& serving) {
  return [serving](const ExchangePtr& exchange) {
    answer_or_refuse(exchange, [&]() -> Api<void> {
      QUIRE_TRY(const Json body, parse_object(exchange->request.body));
      QUIRE_TRY(const Json document, kAnswer(Fields(body), exchange->caller, serving));
      respond_json(*exchange, document);
      return {};
    });
  };
}

}  // namespace

void add_cache(Router& router, Serving serving) {
  router.add(
      "GET", "/v1/cache",
      [serving](const ExchangePtr& exchange) {
        const bool details = exchange->request.query.find("detail=pages") != std::string::npos;
        Json all = Json::array();
        for (const auto& model : serving.models.all()) {
          Json document = totals_json(*model);
          if (details) add_details(document, model->engine.cache_view());
          all.push_back(std::move(document));
        }
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
  router.add("POST", "/v1/cache/lookup", answered_by<look_up>(serving));
  router.add("POST", "/v1/cache/unpin", answered_by<unpin>(serving));
  router.add("POST", "/v1/cache/pin", [serving](const ExchangePtr& exchange) {
    answer_or_refuse(exchange, [&] { return pin(exchange, serving); });
  });
}

}  // namespace quire::server
