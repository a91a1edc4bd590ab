#include "server/message_fields.h"

#include <algorithm>
#include <map>

#include "server/conversation.h"

namespace quire::server {
namespace {

const std::map<std::string, std::chrono::minutes> kTerms{{"5m", std::chrono::minutes(5)},
                                                         {"1h", std::chrono::hours(1)}};

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

// What a block of content adds: to the turn, or before it where a tool answers.
Api<void> add_block(const Fields& block, Message& turn, std::vector<Message>& results) {
  QUIRE_TRY(const std::string type, block.string("type", "text", 64));
  if (type == "text") {
    QUIRE_TRY(const std::string text, block.string("text", "", 8 << 20));
    turn.content += text;
  } else if (type == "tool_use" && turn.role == "assistant") {
    QUIRE_TRY(const auto input, block.object("input"));
    ToolCall call;
    QUIRE_TRY(call.id, block.string("id", "", 256));
    QUIRE_TRY(call.name, block.string("name", "", 256));
    if (call.name.empty()) return bad_field(block.path_of("name"), "is missing");
    call.arguments = input ? written(input->json()) : "{}";
    turn.tool_calls.push_back(std::move(call));
  } else if (type == "tool_result" && turn.role == "user") {
    Message result{"tool", ""};
    QUIRE_TRY(result.content, text_from(block, "content"));
    QUIRE_TRY(result.tool_call_id, block.string("tool_use_id", "", 256));
    if (result.tool_call_id.empty()) return bad_field(block.path_of("tool_use_id"), "is missing");
    results.push_back(std::move(result));
  } else if (type != "thinking" && type != "redacted_thinking") {  // a turn's thoughts are not repeated to it
    return bad_field(block.path_of("type"), "'{}' in a turn of the {}; expected text, or tools used and answered", type,
                     turn.role);
  }
  return {};
}

Api<void> add_turn(const Fields& message, std::vector<Message>& messages) {
  Message turn;
  QUIRE_TRY(turn.role, message.string("role", "", 64));
  if (turn.role != "user" && turn.role != "assistant" && turn.role != "system") {
    return bad_field(message.path_of("role"), "'{}'; expected user or assistant", turn.role);
  }
  const Json* content = message.find("content");
  if (content == nullptr || !content->is_array()) {
    QUIRE_TRY(turn.content, text_from(message, "content"));
    messages.push_back(std::move(turn));
    return {};
  }
  std::vector<Message> results;
  if (auto read =
          for_each_object(message, "content", [&](const Fields& block) { return add_block(block, turn, results); });
      !read.ok()) {
    return read;
  }
  for (Message& result : results) messages.push_back(std::move(result));
  if (results.empty() || !turn.content.empty()) messages.push_back(std::move(turn));
  return {};
}

}  // namespace

Api<std::vector<Message>> anthropic_messages_from(const Fields& fields) {
  std::vector<Message> messages;
  QUIRE_TRY(const std::string system, text_from(fields, "system"));
  if (!system.empty()) messages.push_back({"system", system});
  const auto read =
      for_each_object(fields, "messages", [&](const Fields& message) { return add_turn(message, messages); });
  if (!read.ok()) return read.error();
  return messages;
}

Api<std::chrono::milliseconds> anthropic_term_from(const Fields& fields) {
  std::chrono::milliseconds longest{0};
  for (const char* name : {"tools", "system", "messages"}) {
    const Json* value = fields.find(name);
    if (value == nullptr || !value->is_array()) continue;
    QUIRE_TRY(const auto term, term_of(*value, name));
    longest = std::max(longest, term);
  }
  return longest;
}

}  // namespace quire::server
