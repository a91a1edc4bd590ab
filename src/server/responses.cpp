// POST /v1/responses: a conversation goes on, as OpenAI's newer API has it. Nothing is kept for later.
#include "server/api.h"
#include "server/conversation.h"
#include "server/generation.h"
#include "server/random_id.h"
#include "server/request_fields.h"
#include "server/response_fields.h"

namespace quire::server {
namespace {

struct Shape {
  Json frame;  // what does not change from event to event
  CallRules calls;
};

// The same items, whether events tell of them as they come or not.
class ResponseSpelling : public Spelling {
 public:
  explicit ResponseSpelling(Shape shape) : shape_(std::move(shape)), reader_(shape_.calls) {}

  void open(Exchange& to) override {
    to_ = &to;
    emit("response.created", {{"response", document("in_progress")}});
    emit("response.in_progress", {{"response", document("in_progress")}});
  }
  void token(Exchange&, int, const StreamEvent& event) override {
    say(reader_.read(event.text));
    if (event.end) end(*event.end);
  }
  void close(Exchange&, const Answer& answer) override {
    emit(complete_ ? "response.completed" : "response.incomplete", {{"response", finished(answer)}});
  }
  void fail(Exchange&, const ApiError& error) override {
    Json response = document("failed");
    const std::string code = error.code.empty() ? error_type(error) : error.code;
    response["error"] = {{"code", code}, {"message", error.message}};
    emit("response.failed", {{"response", std::move(response)}});
  }
  Json whole(const Answer& answer) override {
    say(reader_.read(answer.choices[0].text));
    end(answer.choices[0].stop.value_or(StopReason::end_of_generation));
    return finished(answer);
  }

 private:
  enum class Item { none, message, call };

  void emit(const char* type, const Json& more) {
    if (to_ == nullptr) return;
    Json event{{"type", type}, {"sequence_number", events_++}};
    event.update(more);
    to_->send_event(fmt::format("event: {}\ndata: {}", type, written(event)));
  }
  // An event about the item at hand, or about its text.
  void emit_of_item(const char* type, Json more) {
    more["item_id"] = output_.back()["id"];
    more["output_index"] = output_.size() - 1;
    if (item_ == Item::message) more["content_index"] = 0;
    emit(type, more);
  }
  void emit_item(const char* type) { emit(type, {{"output_index", output_.size() - 1}, {"item", output_.back()}}); }
  static Json text_part(const std::string& text) {
    return {{"type", "output_text"}, {"annotations", Json::array()}, {"logprobs", Json::array()}, {"text", text}};
  }

  void begin_message() {
    end_item("completed");
    item_ = Item::message;
    output_.push_back({{"id", random_id("msg_")},
                       {"type", "message"},
                       {"status", "in_progress"},
                       {"role", "assistant"},
                       {"content", Json::array()}});
    emit_item("response.output_item.added");
    emit_of_item("response.content_part.added", {{"part", text_part("")}});
  }
  void begin_call(const std::string& name) {
    end_item("completed");
    item_ = Item::call;
    output_.push_back({{"id", random_id("fc_")},
                       {"type", "function_call"},
                       {"status", "in_progress"},
                       {"call_id", random_id("call_")},
                       {"name", name},
                       {"arguments", ""}});
    emit_item("response.output_item.added");
  }
  void end_item(const char* status) {
    if (item_ == Item::none) return;
    Json& item = output_.back();
    item["status"] = status;
    if (item_ == Item::message) {
      emit_of_item("response.output_text.done", {{"text", text_}, {"logprobs", Json::array()}});
      emit_of_item("response.content_part.done", {{"part", text_part(text_)}});
      item["content"].push_back(text_part(text_));
    } else {
      item["arguments"] = text_;
      emit_of_item("response.function_call_arguments.done", {{"name", item["name"]}, {"arguments", text_}});
    }
    emit_item("response.output_item.done");
    text_.clear();
    item_ = Item::none;
  }
  void say(const std::vector<AnswerPiece>& pieces) {
    for (const AnswerPiece& piece : pieces) {
      if (piece.kind == AnswerPiece::Kind::call) {
        begin_call(piece.text);
        continue;
      }
      const bool text = piece.kind == AnswerPiece::Kind::text;
      if (text && item_ != Item::message) begin_message();
      text_ += piece.text;
      if (text) {
        emit_of_item("response.output_text.delta", {{"delta", piece.text}, {"logprobs", Json::array()}});
      } else {
        emit_of_item("response.function_call_arguments.delta", {{"delta", piece.text}});
      }
    }
  }
  void end(StopReason stop) {
    say(reader_.finish());
    if (output_.empty()) begin_message();
    complete_ = finish_reason(stop) == std::string_view("stop");
    end_item(complete_ ? "completed" : "incomplete");
  }

  Json document(const char* status) const {
    Json json = shape_.frame;
    json["status"] = status;
    json["output"] = output_;
    return json;
  }
  Json finished(const Answer& answer) const {
    const RequestReport& r = answer.report;
    Json json = document(complete_ ? "completed" : "incomplete");
    if (!complete_) json["incomplete_details"] = {{"reason", "max_output_tokens"}};
    json["usage"] = {{"input_tokens", r.prompt_tokens},
                     {"input_tokens_details",
                      {{"cached_tokens", r.cached_tokens}, {"cache_write_tokens", r.prompt_tokens - r.cached_tokens}}},
                     {"output_tokens", r.generated_tokens},
                     {"output_tokens_details", {{"reasoning_tokens", 0}}},
                     {"total_tokens", r.prompt_tokens + r.generated_tokens}};
    json["timings"] = timings_of(r);
    json["cache"] = cache_of(r);
    return json;
  }

  Shape shape_;
  CallReader reader_;
  Exchange* to_ = nullptr;  // where events are sent; it outlives this
  int events_ = 0;
  Json output_ = Json::array();
  Item item_ = Item::none;  // the last of the output, while it grows
  std::string text_;        // of the item
  bool complete_ = true;
};

// What clients expect to find again of what they asked.
Json frame_of(const Fields& fields, const ServedModel& served, const Request& request, const Tools& tools) {
  const auto given = [&](const char* name, const Json& otherwise) -> Json {
    const Json* value = fields.find(name);
    return value == nullptr ? otherwise : *value;
  };
  return {{"id", random_id("resp_")},
          {"object", "response"},
          {"created_at", unix_seconds()},
          {"status", "in_progress"},
          {"model", served.name},
          {"output", Json::array()},
          {"error", nullptr},
          {"incomplete_details", nullptr},
          {"instructions", given("instructions", nullptr)},
          {"max_output_tokens", given("max_output_tokens", nullptr)},
          {"metadata", given("metadata", Json::object())},
          {"parallel_tool_calls", tools.several},
          {"previous_response_id", nullptr},
          {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
          {"store", false},
          {"temperature", request.sampling.temperature},
          {"text", given("text", {{"format", {{"type", "text"}}}})},
          {"tool_choice", given("tool_choice", "auto")},
          {"tools", given("tools", Json::array())},
          {"top_p", request.sampling.top_p},
          {"truncation", "disabled"},
          {"usage", nullptr}};
}

Api<void> converse(const ExchangePtr& exchange, const Fields& fields, const ServedPtr& served, const Serving& serving) {
  QUIRE_CHECK_OK(check_is_stateless(fields));
  QUIRE_TRY(Asked asked, asked_from(fields, exchange->caller));
  auto& [request, streaming] = asked;
  QUIRE_TRY(const Tools tools, tools_from(fields, ToolSpelling::responses));
  QUIRE_TRY(const std::vector<Message> messages, input_from(fields));
  if (fields.has("text")) {
    QUIRE_TRY(request.format, text_format_from(fields));
  }
  QUIRE_TRY(request.tokens, chat_prompt_of(messages, tools, served->model()));
  QUIRE_CHECK_OK(constrain(request, tools));
  Generation::Plan plan;
  plan.streamed = streaming.streamed;
  plan.schema_field = tools.choice == Tools::Choice::none ? "text.format.schema" : "tools";
  plan.spelling = std::make_unique<ResponseSpelling>(Shape{frame_of(fields, *served, request, tools), tools.rules()});
  plan.requests.push_back(std::move(request));
  Generation::start(exchange, served, std::move(plan), serving.metrics);
  return {};
}

}  // namespace

void add_responses(Router& router, Serving serving) {
  router.add("POST", "/v1/responses", with_model(serving, converse));
}

}  // namespace quire::server
