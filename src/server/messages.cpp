// POST /v1/messages: a conversation goes on, as Anthropic's clients ask and are answered.
#include "server/api.h"
#include "server/conversation.h"
#include "server/generation.h"
#include "server/message_fields.h"
#include "server/random_id.h"
#include "server/request_fields.h"

namespace quire::server {
namespace {

struct Shape {
  std::string id, model_name;
  std::int64_t prompt_tokens;
  std::vector<std::string> stops;
  bool breakpoints = false;  // the client marked what it wants cached
  CallRules calls;
};

std::string anthropic_error(const ApiError& error) {
  std::string type = error_type(error);
  if (error.status == 503) type = "overloaded_error";
  if (error.status >= 500 && error.status != 503) type = "api_error";
  return written({{"type", "error"}, {"error", {{"type", type}, {"message", error.message}}}});
}

class MessageSpelling : public Spelling {
 public:
  explicit MessageSpelling(Shape shape) : shape_(std::move(shape)), reader_(shape_.calls) {}

  void open(Exchange& to) override {
    RequestReport unknown;  // how much is cached shows when it is computed
    unknown.prompt_tokens = shape_.prompt_tokens;
    send(to, "message_start", {{"message", message(Json::array(), Json(), Json(), unknown)}});
  }
  void token(Exchange& to, int, const StreamEvent& event) override {
    for (const AnswerPiece& piece : reader_.read(event.text)) say(to, piece);
    if (!event.end) return;
    for (const AnswerPiece& piece : reader_.finish()) say(to, piece);
    if (block_ == Block::none) begin(to, Block::text, text_block(""));
  }
  void close(Exchange& to, const Answer& answer) override {
    end_block(to);
    const auto [reason, stop] = ending(answer.choices[0], called_);
    send(to, "message_delta",
         {{"delta", {{"stop_reason", reason}, {"stop_sequence", stop}}}, {"usage", usage(answer.report)}});
    send(to, "message_stop", {{"timings", timings_of(answer.report)}, {"cache", cache_of(answer.report)}});
  }
  void fail(Exchange& to, const ApiError& error) override {
    to.send_event("event: error\ndata: " + anthropic_error(error));
  }

  Json whole(const Answer& answer) override {
    const ReadAnswer said = read_answer(shape_.calls, answer.choices[0].text);
    const auto [reason, stop] = ending(answer.choices[0], !said.calls.empty());
    Json content = Json::array();
    if (!said.text.empty() || said.calls.empty()) content.push_back(text_block(said.text));
    for (const Call& call : said.calls) content.push_back(call_block(call.name, input_of(call)));
    Json document = message(std::move(content), reason, stop, answer.report);
    document["timings"] = timings_of(answer.report);
    document["cache"] = cache_of(answer.report);
    return document;
  }

 private:
  enum class Block { none, text, call };

  static Json text_block(const std::string& text) { return {{"type", "text"}, {"text", text}}; }
  static Json call_block(const std::string& name, Json input) {
    return {{"type", "tool_use"}, {"id", random_id("toolu_")}, {"name", name}, {"input", std::move(input)}};
  }
  // A call that the end of the cache cut off has no arguments yet.
  static Json input_of(const Call& call) {
    Json input = Json::parse(call.arguments, nullptr, false);
    return input.is_object() ? input : Json::object();
  }
  void begin(Exchange& to, Block block, Json content) {
    end_block(to);
    block_ = block;
    send(to, "content_block_start", {{"index", index_}, {"content_block", std::move(content)}});
  }
  void end_block(Exchange& to) {
    if (block_ != Block::none) send(to, "content_block_stop", {{"index", index_++}});
    block_ = Block::none;
  }
  void say(Exchange& to, const AnswerPiece& piece) {
    if (piece.kind == AnswerPiece::Kind::call) {
      called_ = true;
      return begin(to, Block::call, call_block(piece.text, Json::object()));
    }
    const bool text = piece.kind == AnswerPiece::Kind::text;
    if (text && block_ != Block::text) begin(to, Block::text, text_block(""));
    send(to, "content_block_delta",
         {{"index", index_},
          {"delta",
           {{"type", text ? "text_delta" : "input_json_delta"}, {text ? "text" : "partial_json", piece.text}}}});
  }

  // Why it ended, and by which string where that is known.
  std::pair<Json, Json> ending(const AnswerChoice& choice, bool called) const {
    switch (choice.stop.value_or(StopReason::end_of_generation)) {
      case StopReason::stop_string:
        return {"stop_sequence", shape_.stops.size() == 1 ? Json(shape_.stops[0]) : Json()};
      case StopReason::max_tokens:
      case StopReason::context_full:
        return {"max_tokens", Json()};
      default:
        return {called ? "tool_use" : "end_turn", Json()};
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
  CallReader reader_;
  Block block_ = Block::none;  // that is open
  int index_ = 0;              // of the block
  bool called_ = false;
};

Api<void> converse(const ExchangePtr& exchange, const Fields& fields, const ServedPtr& served, const Serving& serving) {
  QUIRE_TRY(Asked asked, asked_from(fields, exchange->caller));
  auto& [request, streaming] = asked;
  if (!fields.has("max_tokens")) return bad_field("max_tokens", "is missing");
  QUIRE_TRY(const Tools tools, tools_from(fields, ToolSpelling::anthropic));
  QUIRE_TRY(request.stop, stops_from(fields, "stop_sequences"));
  QUIRE_TRY(const std::vector<Message> messages, anthropic_messages_from(fields));
  QUIRE_TRY(const auto term, anthropic_term_from(fields));
  request.keep = std::max(request.keep, term);
  QUIRE_TRY(request.tokens, chat_prompt_of(messages, tools, served->model()));
  QUIRE_CHECK_OK(constrain(request, tools));
  Generation::Plan plan;
  plan.streamed = streaming.streamed;
  plan.spelling = std::make_unique<MessageSpelling>(Shape{random_id("msg-"), served->name, std::ssize(request.tokens),
                                                          request.stop, request.keep.count() > 0, tools.rules()});
  plan.requests.push_back(std::move(request));
  Generation::start(exchange, served, std::move(plan), serving.metrics);
  return {};
}

}  // namespace

void add_messages(Router& router, Serving serving) {
  const Refusal refuse = [](const ApiError& error) {
    HttpResponse response = to_response(error);
    response.body = anthropic_error(error);
    return response;
  };
  router.add("POST", "/v1/messages", with_model(serving, converse, refuse));
}

}  // namespace quire::server
