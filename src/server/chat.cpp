// POST /v1/chat/completions: a conversation goes on.
#include "server/api.h"
#include "server/generation.h"
#include "server/random_id.h"
#include "server/request_fields.h"

namespace quire::server {
namespace {

struct Shape {
  std::string id, model_name;
  std::int64_t created;
  const Model* model;
  int choices = 1;
  bool usage = false;
  bool logprobs = false;
};

class ChatSpelling : public Spelling {
 public:
  explicit ChatSpelling(Shape shape) : shape_(std::move(shape)) {}

  void open(Exchange& to) override {
    for (int i = 0; i < shape_.choices; ++i) send(to, i, {{"role", "assistant"}, {"content", ""}}, Json(), Json());
  }
  void token(Exchange& to, int index, const StreamEvent& event) override {
    Json logprobs;
    if (shape_.logprobs && event.token) {
      logprobs = {{"content", Json::array({token_json({*event.token, event.text, event.chosen, event.alternatives})})},
                  {"refusal", nullptr}};
    }
    if (!event.text.empty() || !logprobs.is_null())
      send(to, index, {{"content", event.text}}, std::move(logprobs), Json());
    if (event.end) send(to, index, Json::object(), Json(), finish_reason(*event.end));
  }
  void close(Exchange& to, const Answer& answer) override {
    Json last = frame("chat.completion.chunk", Json::array());
    if (shape_.usage) last["usage"] = usage_of(answer.report);
    last["timings"] = timings_of(answer.report);
    last["cache"] = cache_of(answer.report);
    to.send_event("data: " + last.dump());
    to.send_event("data: [DONE]");
  }
  void fail(Exchange& to, const ApiError& error) override { to.send_event("data: " + to_json(error)); }

  Json whole(const Answer& answer) override {
    Json choices = Json::array();
    for (std::size_t i = 0; i < answer.choices.size(); ++i) {
      const AnswerChoice& c = answer.choices[i];
      Json logprobs;
      if (shape_.logprobs) {
        Json content = Json::array();
        for (const AnswerToken& token : c.tokens) content.push_back(token_json(token));
        logprobs = {{"content", std::move(content)}, {"refusal", nullptr}};
      }
      choices.push_back({{"index", i},
                         {"message", {{"role", "assistant"}, {"content", c.text}, {"refusal", nullptr}}},
                         {"logprobs", std::move(logprobs)},
                         {"finish_reason", finish_reason(c.stop.value_or(StopReason::end_of_generation))}});
    }
    Json document = frame("chat.completion", std::move(choices));
    document["usage"] = usage_of(answer.report);
    document["timings"] = timings_of(answer.report);
    document["cache"] = cache_of(answer.report);
    return document;
  }

 private:
  Json probability_json(TokenId token, Json logprob) const {
    return {{"token", spelled(*shape_.model, token)},
            {"logprob", std::move(logprob)},
            {"bytes", bytes_of(*shape_.model, token)}};
  }
  Json token_json(const AnswerToken& token) const {
    Json json = probability_json(token.token, token.chosen ? Json(token.chosen->log_probability) : Json());
    json["top_logprobs"] = Json::array();
    for (const TokenProbability& other : token.alternatives) {
      json["top_logprobs"].push_back(probability_json(other.token, other.log_probability));
    }
    return json;
  }
  Json frame(const char* object, Json choices) const {
    return {{"id", shape_.id},
            {"object", object},
            {"created", shape_.created},
            {"model", shape_.model_name},
            {"system_fingerprint", "quire"},
            {"choices", std::move(choices)}};
  }
  void send(Exchange& to, int index, Json delta, Json logprobs, Json finish) {
    Json document = frame("chat.completion.chunk", Json::array({{{"index", index},
                                                                 {"delta", std::move(delta)},
                                                                 {"logprobs", std::move(logprobs)},
                                                                 {"finish_reason", std::move(finish)}}}));
    if (shape_.usage) document["usage"] = nullptr;
    to.send_event("data: " + written(document));
  }

  Shape shape_;
};

Api<void> converse(const ExchangePtr& exchange, const Serving& serving) {
  QUIRE_TRY(const Json body, parse_object(exchange->request.body));
  const Fields fields(body);
  QUIRE_TRY(Asked asked, asked_from(fields, exchange->caller, serving.models));
  auto& [served, request, streaming] = asked;
  QUIRE_TRY(const std::int64_t choices, fields.integer("n", 1, 1, kMostChoices));
  QUIRE_TRY(const bool logprobs, fields.boolean("logprobs", false));
  QUIRE_TRY(const std::int64_t top, fields.integer("top_logprobs", 0, 0, kMostTopLogprobs));
  if (fields.has("top_logprobs") && !logprobs) return bad_field("top_logprobs", "given without 'logprobs': true");
  for (const char* name : {"tools", "functions"}) {
    if (fields.has(name)) return bad_field(name, "is not supported yet");
  }
  QUIRE_TRY(request.tokens, chat_prompt_from(fields, served->model()));
  request.choices = static_cast<int>(choices);
  request.top_logprobs = logprobs ? static_cast<int>(top) : -1;
  Generation::Plan plan;
  plan.streamed = streaming.streamed;
  plan.keep_tokens = logprobs;
  plan.spelling = std::make_unique<ChatSpelling>(Shape{random_id("chatcmpl-"), served->name, unix_seconds(),
                                                       &served->model(), request.choices, streaming.usage, logprobs});
  plan.requests.push_back(std::move(request));
  Generation::start(exchange, served->engine, std::move(plan), serving.metrics);
  return {};
}

}  // namespace

void add_chat(Router& router, Serving serving) {
  router.add("POST", "/v1/chat/completions", [serving](const ExchangePtr& exchange) {
    answer_or_refuse(exchange, [&] { return converse(exchange, serving); });
  });
}

}  // namespace quire::server
