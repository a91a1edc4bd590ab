#include "server/response_fields.h"

#include "server/conversation.h"

namespace quire::server {
namespace {

Api<void> add_call(const Fields& item, std::vector<Message>& messages) {
  ToolCall call;
  QUIRE_TRY(call.id, item.string("call_id", "", 256));
  QUIRE_TRY(call.name, item.string("name", "", 256));
  QUIRE_TRY(call.arguments, item.string("arguments", "{}", 8 << 20));
  if (call.id.empty()) return bad_field(item.path_of("call_id"), "is missing");
  if (call.name.empty()) return bad_field(item.path_of("name"), "is missing");
  // What the assistant said and the calls after it are one turn.
  if (messages.empty() || messages.back().role != "assistant") messages.push_back({"assistant", ""});
  messages.back().tool_calls.push_back(std::move(call));
  return {};
}

Api<void> add_item(const Fields& item, std::vector<Message>& messages) {
  QUIRE_TRY(const std::string type, item.string("type", "message", 64));
  if (type == "function_call") return add_call(item, messages);
  if (type == "reasoning") return {};  // a turn's thoughts are not repeated to it
  Message message;
  if (type == "function_call_output") {
    message.role = "tool";
    QUIRE_TRY(message.tool_call_id, item.string("call_id", "", 256));
    if (message.tool_call_id.empty()) return bad_field(item.path_of("call_id"), "is missing");
    QUIRE_TRY(message.content, text_from(item, "output"));
  } else if (type == "message") {
    QUIRE_TRY(message.role, item.string("role", "", 64));
    if (message.role == "developer") message.role = "system";
    if (message.role != "system" && message.role != "user" && message.role != "assistant") {
      return bad_field(item.path_of("role"), "'{}'; expected system, developer, user or assistant", message.role);
    }
    QUIRE_TRY(message.content, text_from(item, "content"));
  } else {
    return bad_field(item.path_of("type"), "'{}'; expected message, function_call or function_call_output", type);
  }
  messages.push_back(std::move(message));
  return {};
}

}  // namespace

Api<std::vector<Message>> input_from(const Fields& fields) {
  std::vector<Message> messages;
  const Json* input = fields.find("input");
  if (input != nullptr && input->is_string()) {
    messages.push_back({"user", input->get<std::string>()});
  } else if (auto read = for_each_object(fields, "input", [&](const Fields& item) { return add_item(item, messages); });
             !read.ok()) {
    return read.error();
  }
  QUIRE_TRY(const std::string instructions, fields.string("instructions", "", 8 << 20));
  if (!instructions.empty()) {
    if (!messages.empty() && messages[0].role == "system") {
      messages[0].content = instructions + "\n\n" + messages[0].content;
    } else {
      messages.insert(messages.begin(), {"system", instructions});
    }
  }
  if (messages.empty()) return bad_field("input", "holds no message");
  return messages;
}

Api<OutputFormat> text_format_from(const Fields& fields) {
  using Kind = OutputFormat::Kind;
  QUIRE_TRY(const auto text, fields.object("text"));
  if (!text) return OutputFormat{};
  QUIRE_TRY(const auto format, text->object("format"));
  if (!format) return OutputFormat{};
  QUIRE_TRY(const std::string type, format->string("type", "", 64));
  if (type == "text") return OutputFormat{};
  if (type == "json_object") return OutputFormat{Kind::json, ""};
  if (type != "json_schema") {
    return bad_field("text.format.type", "'{}'; expected text, json_object or json_schema", type);
  }
  QUIRE_TRY(const auto schema, format->object("schema"));
  if (!schema) return bad_field("text.format.schema", "is missing");
  return OutputFormat{Kind::schema, schema->json().dump()};
}

Api<void> check_is_stateless(const Fields& fields) {
  for (const char* name : {"previous_response_id", "conversation"}) {
    if (fields.has(name)) {
      return bad_field(name, "no response is kept here; send the whole conversation as 'input'");
    }
  }
  if (fields.has("prompt")) return bad_field("prompt", "no prompts are kept here; use 'instructions' and 'input'");
  QUIRE_TRY(const bool background, fields.boolean("background", false));
  if (background) return bad_field("background", "no response is kept here; expected false");
  QUIRE_TRY(const std::string truncation, fields.string("truncation", "disabled", 64));
  if (truncation != "disabled") return bad_field("truncation", "'{}'; expected disabled", truncation);
  QUIRE_TRY(const std::int64_t top, fields.integer("top_logprobs", 0, 0, 0));
  (void)top;
  return {};
}

}  // namespace quire::server
