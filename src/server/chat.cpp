// POST /v1/chat/completions: a conversation goes on.
#include "server/api.h"
#include "server/conversation.h"
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
  CallRules calls;
};

class ChatSpelling : public Spelling {
 public:
  explicit ChatSpelling(Shape shape) : shape_(std::move(shape)) {
    speakers_.resize(static_cast<std::size_t>(shape_.choices), {CallReader(shape_.calls), 0});
  }

  void open(Exchange& to) override {
    const bool calls_only = shape_.calls.mode == CallRules::Mode::one || shape_.calls.mode == CallRules::Mode::list;
    for (int i = 0; i < shape_.choices; ++i) {
      send(to, i, {{"role", "assistant"}, {"content", calls_only ? Json() : Json("")}}, Json(), Json());
    }
  }
  void progress(Exchange& to, int index, const PromptProgress& done) override {
    Json document = chunk(index, Json::object(), Json(), Json());
    document["prompt_progress"] = progress_of(done);
    to.send_event("data: " + document.dump());
  }
  void token(Exchange& to, int index, const StreamEvent& event) override {
    Speaker& speaker = speakers_[static_cast<std::size_t>(index)];
    Json logprobs;
    if (shape_.logprobs && event.token) {
      logprobs = {{"content", Json::array({token_json({*event.token, event.text, event.chosen, event.alternatives})})},
                  {"refusal", nullptr}};
    }
    std::vector<AnswerPiece> pieces = speaker.reader.read(event.text);
    if (event.end) {
      for (AnswerPiece& piece : speaker.reader.finish()) pieces.push_back(std::move(piece));
    }
    if (pieces.empty() && !logprobs.is_null()) pieces.push_back({AnswerPiece::Kind::text, ""});
    for (const AnswerPiece& piece : pieces) {
      send(to, index, delta_of(speaker, piece), std::exchange(logprobs, Json()), Json());
    }
    if (event.end) send(to, index, Json::object(), Json(), ending(*event.end, speaker.calls > 0));
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
      const ReadAnswer said = read_answer(shape_.calls, c.text);
      const StopReason stop = c.stop.value_or(StopReason::end_of_generation);
      choices.push_back({{"index", i},
                         {"message", message(said)},
                         {"logprobs", std::move(logprobs)},
                         {"finish_reason", ending(stop, !said.calls.empty())}});
    }
    Json document = frame("chat.completion", std::move(choices));
    document["usage"] = usage_of(answer.report);
    document["timings"] = timings_of(answer.report);
    document["cache"] = cache_of(answer.report);
    return document;
  }

 private:
  struct Speaker {
    CallReader reader;
    int calls;  // begun so far
  };

  static const char* ending(StopReason stop, bool called) {
    const char* const reason = finish_reason(stop);
    return called && reason == std::string_view("stop") ? "tool_calls" : reason;
  }
  static Json message(const ReadAnswer& said) {
    const bool silent = said.text.empty() && !said.calls.empty();
    Json json{{"role", "assistant"}, {"content", silent ? Json() : Json(said.text)}, {"refusal", nullptr}};
    for (const Call& call : said.calls) {
      json["tool_calls"].push_back({{"id", random_id("call_")},
                                    {"type", "function"},
                                    {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    }
    return json;
  }
  static Json delta_of(Speaker& speaker, const AnswerPiece& piece) {
    if (piece.kind == AnswerPiece::Kind::text) return {{"content", piece.text}};
    Json call{{"index", speaker.calls - 1}, {"function", {{"arguments", piece.text}}}};
    if (piece.kind == AnswerPiece::Kind::call) {
      call = {{"index", speaker.calls++},
              {"id", random_id("call_")},
              {"type", "function"},
              {"function", {{"name", piece.text}, {"arguments", ""}}}};
    }
    return {{"tool_calls", Json::array({std::move(call)})}};
  }
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
  Json chunk(int index, Json delta, Json logprobs, Json finish) const {
    Json document = frame("chat.completion.chunk", Json::array({{{"index", index},
                                                                 {"delta", std::move(delta)},
                                                                 {"logprobs", std::move(logprobs)},
                                                                 {"finish_reason", std::move(finish)}}}));
    if (shape_.usage) document["usage"] = nullptr;
    return document;
  }
  void send(Exchange& to, int index, Json delta, Json logprobs, Json finish) {
    to.send_event("data: " + written(chunk(index, std::move(delta), std::move(logprobs), std::move(finish))));
  }

  Shape shape_;
  std::vector<Speaker> speakers_;  // one for each choice, where it is streamed
};

Api<void> converse(const ExchangePtr& exchange, const Fields& fields, const ServedPtr& served, const Serving& serving) {
  QUIRE_TRY(Asked asked, asked_from(fields, exchange->caller));
  auto& [request, streaming] = asked;
  QUIRE_TRY(const std::int64_t choices, fields.integer("n", 1, 1, kMostChoices));
  QUIRE_TRY(const bool logprobs, fields.boolean("logprobs", false));
  QUIRE_TRY(const std::int64_t top, fields.integer("top_logprobs", 0, 0, kMostTopLogprobs));
  if (fields.has("top_logprobs") && !logprobs) return bad_field("top_logprobs", "given without 'logprobs': true");
  if (fields.has("functions")) return bad_field("functions", "is not supported; use 'tools'");
  QUIRE_TRY(const Tools tools, tools_from(fields, ToolSpelling::chat));
  QUIRE_TRY(const std::vector<Message> messages, messages_from(fields));
  QUIRE_TRY(request.tokens, chat_prompt_of(messages, tools, served->model()));
  QUIRE_CHECK_OK(constrain(request, tools));
  request.choices = static_cast<int>(choices);
  request.top_logprobs = logprobs ? static_cast<int>(top) : -1;
  Generation::Plan plan;
  plan.streamed = streaming.streamed;
  plan.keep_tokens = logprobs;
  plan.schema_field = tools.choice == Tools::Choice::none ? "response_format" : "tools";
  plan.spelling =
      std::make_unique<ChatSpelling>(Shape{random_id("chatcmpl-"), served->name, unix_seconds(), &served->model(),
                                           request.choices, streaming.usage, logprobs, tools.rules()});
  plan.requests.push_back(std::move(request));
  Generation::start(exchange, served, std::move(plan), serving.metrics);
  return {};
}

}  // namespace

void add_chat(Router& router, Serving serving) {
  router.add("POST", "/v1/chat/completions", with_model(serving, converse));
}

}  // namespace quire::server
