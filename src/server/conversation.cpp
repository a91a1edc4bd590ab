#include "server/conversation.h"

namespace quire::server {
namespace {

Api<std::vector<ToolCall>> calls_from(const Fields& message) {
  std::vector<ToolCall> calls;
  if (!message.has("tool_calls")) return calls;
  const auto read = for_each_object(message, "tool_calls", [&](const Fields& item) -> Api<void> {
    QUIRE_TRY(const auto function, item.object("function"));
    if (!function) return bad_field(item.path_of("function"), "is missing");
    ToolCall call;
    QUIRE_TRY(call.id, item.string("id", "", 256));
    QUIRE_TRY(call.name, function->string("name", "", 256));
    QUIRE_TRY(call.arguments, function->string("arguments", "{}", 8 << 20));
    if (call.name.empty()) return bad_field(function->path_of("name"), "is missing");
    calls.push_back(std::move(call));
    return {};
  });
  if (!read.ok()) return read.error();
  return calls;
}

Api<Message> message_from(const Fields& fields) {
  Message message;
  QUIRE_TRY(message.role, fields.string("role", "", 64));
  if (message.role == "developer") message.role = "system";
  if (message.role != "system" && message.role != "user" && message.role != "assistant" && message.role != "tool") {
    return bad_field(fields.path_of("role"), "'{}'; expected system, developer, user, assistant or tool", message.role);
  }
  QUIRE_TRY(message.content, text_from(fields, "content"));
  if (message.role == "assistant") {
    QUIRE_TRY(message.tool_calls, calls_from(fields));
  }
  if (message.role == "tool") {
    if (!fields.has("tool_call_id")) return bad_field(fields.path_of("tool_call_id"), "is missing");
    QUIRE_TRY(message.tool_call_id, fields.string("tool_call_id", "", 256));
  }
  return message;
}

}  // namespace

Api<std::string> text_from(const Fields& fields, std::string_view name) {
  const Json* content = fields.find(name);
  const std::string path = fields.path_of(name);
  if (content == nullptr) return std::string();
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) return bad_field(path, "{}; expected a string or a list of parts", kind_of(*content));
  std::string text;
  for (const Json& item : *content) {
    if (!item.is_object()) return bad_field(path, "holds {}; expected objects", kind_of(item));
    const Fields part(item, path);
    QUIRE_TRY(const std::string type, part.string("type", "text"));
    if (type != "text" && type != "input_text" && type != "output_text") {
      return bad_field(path, "a part of type '{}'; this model reads only text", type.substr(0, 50));
    }
    QUIRE_TRY(const std::string piece, part.string("text", "", 8 << 20));
    text += piece;
  }
  return text;
}

Api<std::vector<Message>> messages_from(const Fields& fields) {
  std::vector<Message> messages;
  const auto read = for_each_object(fields, "messages", [&](const Fields& item) -> Api<void> {
    QUIRE_TRY(Message message, message_from(item));
    messages.push_back(std::move(message));
    return {};
  });
  if (!read.ok()) return read.error();
  return messages;
}

Api<std::vector<TokenId>> chat_prompt_of(const std::vector<Message>& messages, const Tools& tools, const Model& model) {
  auto tokens = model.chat_prompt(messages, tools.chat_options());
  if (!tokens.ok()) return to_api_error(tokens.error(), "messages");
  return std::move(*tokens);
}

Api<std::vector<TokenId>> chat_prompt_from(const Fields& fields, const Model& model) {
  QUIRE_TRY(const std::vector<Message> messages, messages_from(fields));
  QUIRE_TRY(const Tools tools, tools_from(fields, ToolSpelling::chat));
  return chat_prompt_of(messages, tools, model);
}

}  // namespace quire::server
