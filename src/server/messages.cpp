// POST /v1/messages: a conversation goes on, as Anthropic's clients ask and are answered.
#include <map>

#include "server/api.h"
#include "server/generation.h"
#include "server/random_id.h"
#include "server/request_fields.h"

namespace quire::server {
namespace {

struct Shape {
  std::string id, model_name;
  std::int64_t prompt_tokens;
  std::vector<std::string> stops;
  bool breakpoints = false;  // the client marked what it wants cached
};

std::string anthropic_error(const ApiError& error) {
  std::string type = error_type(error);
  if (error.status == 503) type = "overloaded_error";
  if (error.status >= 500 && error.status != 503) type = "api_error";
  return written({{"type", "error"}, {"error", {{"type", type}, {"message", error.message}}}});
}

class MessageSpelling : public Spelling {
 public:
  explicit MessageSpelling(Shape shape) : shape_(std::move(shape)) {}

  void open(Exchange& to) override {
    RequestReport unknown;  // how much is cached shows when it is computed
    unknown.prompt_tokens = shape_.prompt_tokens;
    send(to, "message_start", {{"message", message(Json::array(), Json(), Json(), unknown)}});
    send(to, "content_block_start", {{"index", 0}, {"content_block", {{"type", "text"}, {"text", ""}}}});
  }
  void token(Exchange& to, int, const StreamEvent& event) override {
    if (event.text.empty()) return;
    send(to, "content_block_delta", {{"index", 0}, {"delta", {{"type", "text_delta"}, {"text", event.text}}}});
  }
  void close(Exchange& to, const Answer& answer) override {
    const auto [reason, stop] = ending(answer.choices[0]);
    send(to, "content_block_stop", {{"index", 0}});
    send(to, "message_delta",
         {{"delta", {{"stop_reason", reason}, {"stop_sequence", stop}}}, {"usage", usage(answer.report)}});
    send(to, "message_stop", {{"timings", timings_of(answer.report)}, {"cache", cache_of(answer.report)}});
  }
  void fail(Exchange& to, const ApiError& error) override {
    to.send_event("event: error\ndata: " + anthropic_error(error));
  }

  Json whole(const Answer& answer) override {
    const auto [reason, stop] = ending(answer.choices[0]);
    Json document =
        message(Json::array({{{"type", "text"}, {"text", answer.choices[0].text}}}), reason, stop, answer.report);
    document["timings"] = timings_of(answer.report);
    document["cache"] = cache_of(answer.report);
    return document;
  }

 private:
  // Why it ended, and by which string where that is known.
  std::pair<Json, Json> ending(const AnswerChoice& choice) const {
    switch (choice.stop.value_or(StopReason::end_of_generation)) {
      case StopReason::stop_string:
        return {"stop_sequence", shape_.stops.size() == 1 ? Json(shape_.stops[0]) : Json()};
      case StopReason::max_tokens:
      case StopReason::context_full:
        return {"max_tokens", Json()};
      default:
        return {"end_turn", Json()};
    }
  }
  Json usage(const RequestReport& r) const {
    const std::int64_t computed = r.prompt_tokens - r.cached_tokens;
    return {{"input_tokens", shape_.breakpoints ? 0 : computed},
            {"cache_creation_input_tokens", shape_.breakpoints ? computed : 0},
            {"cache_read_input_tokens", r.cached_tokens},
            {"output_tokens", r.generated_tokens}};
  }
  Json message(Json content, Json reason, Json stop, const RequestReport& report) const {
    return {{"id", shape_.id},
            {"type", "message"},
            {"role", "assistant"},
            {"model", shape_.model_name},
            {"content", std::move(content)},
            {"stop_reason", std::move(reason)},
            {"stop_sequence", std::move(stop)},
            {"usage", usage(report)}};
  }
  static void send(Exchange& to, const char* type, const Json& more) {
    Json document{{"type", type}};
    document.update(more);
    to.send_event(fmt::format("event: {}\ndata: {}", type, written(document)));
  }

  Shape shape_;
};

const std::map<std::string, std::chrono::minutes> kTerms{{"5m", std::chrono::minutes(5)},
                                                         {"1h", std::chrono::hours(1)}};

// The longest time for which a breakpoint anywhere in the value asks; nothing where there is none.
Api<std::chrono::milliseconds> term_of(const Json& value, const std::string& path) {
  std::chrono::milliseconds longest{0};
  for (const Json& item : value) {
    if (!item.is_object()) continue;
    const Fields fields(item, path);
    QUIRE_TRY(const auto control, fields.object("cache_control"));
    if (control) {
      QUIRE_TRY(const std::string term, control->string("ttl", "5m"));
      const auto known = kTerms.find(term);
      if (known == kTerms.end()) {
        return bad_field(path + ".cache_control.ttl", "'{}'; expected 5m or 1h", term.substr(0, 50));
      }
      longest = std::max<std::chrono::milliseconds>(longest, known->second);
    }
    if (const Json* content = fields.find("content"); content != nullptr && content->is_array()) {
      QUIRE_TRY(const auto inner, term_of(*content, path + ".content"));
      longest = std::max(longest, inner);
    }
  }
  return longest;
}

Api<void> converse(const ExchangePtr& exchange, const Serving& serving) {
  QUIRE_TRY(const Json body, parse_object(exchange->request.body));
  const Fields fields(body);
  QUIRE_TRY(Asked asked, asked_from(fields, exchange->caller, serving.models));
  auto& [served, request, streaming] = asked;
  if (!fields.has("max_tokens")) return bad_field("max_tokens", "is missing");
  if (fields.has("tools")) return bad_field("tools", "is not supported yet");
  QUIRE_TRY(request.stop, stops_from(fields, "stop_sequences"));
  QUIRE_TRY(const std::string system, text_from(fields, "system"));
  QUIRE_TRY(std::vector<Message> messages, messages_from(fields));
  if (!system.empty()) messages.insert(messages.begin(), {"system", system});
  for (const char* name : {"system", "messages"}) {
    const Json* value = fields.find(name);
    if (value == nullptr || !value->is_array()) continue;
    QUIRE_TRY(const auto term, term_of(*value, name));
    request.keep = std::max(request.keep, term);
  }
  QUIRE_TRY(request.tokens, chat_prompt_of(messages, served->model()));
  Generation::Plan plan;
  plan.streamed = streaming.streamed;
  plan.spelling = std::make_unique<MessageSpelling>(
      Shape{random_id("msg-"), served->name, std::ssize(request.tokens), request.stop, request.keep.count() > 0});
  plan.requests.push_back(std::move(request));
  Generation::start(exchange, served->engine, std::move(plan), serving.metrics);
  return {};
}

}  // namespace

void add_messages(Router& router, Serving serving) {
  router.add("POST", "/v1/messages", [serving](const ExchangePtr& exchange) {
    if (auto done = converse(exchange, serving); !done.ok()) {
      HttpResponse response = to_response(done.error());
      response.body = anthropic_error(done.error());
      exchange->respond(std::move(response));
    }
  });
}

}  // namespace quire::server
