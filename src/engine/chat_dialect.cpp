#include "engine/chat_dialect.h"

#include <algorithm>
#include <map>
#include <vector>

#include "core/fail.h"
#include "core/json_shape.h"

namespace quire {
namespace {

constexpr std::size_t kLongestBeforeCall = 64;
constexpr std::string_view kPlainBeforeCall = "<tool_call>\n";

// Words that no template says by itself.
const char* const kProbeTools = R"([{"type": "function", "function": {"name": "probe_function",
  "description": "probe_description", "parameters": {"type": "object",
  "properties": {"probe_parameter": {"type": "string", "description": "probe"}}, "required": ["probe_parameter"]}}}])";
const std::vector<Message> kQuestion{{"user", "probe_question"}};
const std::vector<Message> kCall{
    {"user", "probe_question"},
    {"assistant", "", {{"probe1234", "probe_call", R"({"probe_argument": "probe_value"})"}}},
    {"tool", "probe_result", {}, "probe1234"}};

bool says(const Result<std::string>& text, std::initializer_list<std::string_view> words) {
  return text.ok() &&
         std::all_of(words.begin(), words.end(), [&](std::string_view word) { return text->find(word) != text->npos; });
}

std::string written(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Spaced as answers that a schema constrains, so that what was generated is found again in the cache.
std::string plain_call(const ToolCall& call) {
  return fmt::format("{}{{\"name\": {}, \"arguments\": {}}}\n</tool_call>", kPlainBeforeCall, written(call.name),
                     call.arguments.empty() ? "{}" : call.arguments);
}

std::string plain_tools(const Json& tools) {
  std::string text = "You can call functions. These are there, one a line, as JSON:\n";
  for (const Json& tool : tools) text += written(tool.contains("function") ? tool["function"] : tool) + "\n";
  return text +
         "To call one, answer with its name and its arguments in this form, and nothing else:\n"
         "<tool_call>\n{\"name\": \"...\", \"arguments\": {...}}\n</tool_call>\n"
         "What it gives comes back as <tool_response>.";
}

// For templates that do not know calls.
std::vector<Message> written_out(std::span<const Message> messages) {
  std::vector<Message> plain;
  bool after_tool = false;
  for (const Message& m : messages) {
    if (m.role == "tool") {
      const std::string text = "<tool_response>\n" + m.content + "\n</tool_response>";
      if (after_tool) {  // most templates want users and assistants to take turns
        plain.back().content += "\n" + text;
      } else {
        plain.push_back({"user", text});
      }
    } else {
      plain.push_back({m.role, m.content});
      for (const ToolCall& call : m.tool_calls) {
        std::string& content = plain.back().content;
        content += (content.empty() ? "" : "\n") + plain_call(call);
      }
    }
    after_tool = m.role == "tool";
  }
  return plain;
}

Json call_json(const ToolCall& call, ChatDialect::Calls as) {
  Json arguments = call.arguments;
  if (as == ChatDialect::Calls::as_objects && json_shape(call.arguments) == JsonShape::good) {
    Json parsed = Json::parse(call.arguments.empty() ? "{}" : call.arguments, nullptr, false);
    if (!parsed.is_discarded()) arguments = std::move(parsed);
  }
  return {
      {"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", std::move(arguments)}}}};
}

void guard_strings(Json& json, const ChatDialect::Guard& guard) {
  if (json.is_string()) {
    json = guard(json.get_ref<const std::string&>());
  } else if (json.is_array()) {
    for (Json& item : json) guard_strings(item, guard);
  } else if (json.is_object()) {
    Json safe = Json::object();
    for (auto& [name, value] : json.items()) {
      guard_strings(value, guard);
      safe[guard(name)] = std::move(value);
    }
    json = std::move(safe);
  }
}

}  // namespace

ChatDialect::ChatDialect(ChatTemplate chat_template, std::string bos, std::string eos)
    : template_(std::move(chat_template)), bos_(std::move(bos)), eos_(std::move(eos)) {
  find_out_about_tools();
  find_out_about_calls();
}

void ChatDialect::find_out_about_tools() {
  knows_tools_ = says(template_.render(context(kQuestion, Json::parse(kProbeTools))), {"probe_function"});
}

void ChatDialect::find_out_about_calls() {
  const Json tools = Json::parse(kProbeTools);
  const auto knows = [&](Calls calls, std::string_view argument) {
    calls_ = calls;
    return says(template_.render(context(kCall, tools)), {"probe_call", argument, "probe_result"});
  };
  // An object that is printed as Python would is no JSON; templates that write neither spell arguments their own way.
  if (!knows(Calls::as_objects, "\"probe_argument\"") && !knows(Calls::as_strings, "\"probe_argument\"") &&
      !knows(Calls::as_objects, "probe_argument")) {
    calls_ = Calls::unknown;
    before_call_ = kPlainBeforeCall;
    return;
  }
  const auto question = template_.render(context(kQuestion, tools)), call = template_.render(context(kCall, tools));
  if (!question.ok() || !call.ok() || !call->starts_with(*question)) return;
  const std::size_t at = call->find("{\"name\": \"probe_call\"", question->size());
  if (at == call->npos || at - question->size() > kLongestBeforeCall) return;
  before_call_ = call->substr(question->size(), at - question->size());
}

Json ChatDialect::context(std::span<const Message> messages, const Json& tools) const {
  Json context{{"messages", Json::array()}, {"add_generation_prompt", true}, {"bos_token", bos_}, {"eos_token", eos_}};
  std::vector<Message> plain;
  if (calls_ == Calls::unknown) messages = plain = written_out(messages);
  Json& list = context["messages"];
  std::map<std::string, std::string> names;  // of the functions called, by the calls' ids
  for (const Message& m : messages) {
    Json one{{"role", m.role}, {"content", m.content}};
    if (!m.tool_calls.empty()) {
      if (m.content.empty()) one["content"] = nullptr;
      for (const ToolCall& call : m.tool_calls) {
        one["tool_calls"].push_back(call_json(call, calls_));
        names[call.id] = call.name;
      }
    }
    if (m.role == "tool") {
      one["tool_call_id"] = m.tool_call_id;
      if (const auto name = names.find(m.tool_call_id); name != names.end()) one["name"] = name->second;
    }
    list.push_back(std::move(one));
  }
  if (tools.empty()) return context;
  if (knows_tools_) {
    context["tools"] = tools;
  } else if (!list.empty() && list[0]["role"] == "system") {
    list[0]["content"] = list[0]["content"].get<std::string>() + "\n\n" + plain_tools(tools);
  } else {
    list.insert(list.begin(), Json{{"role", "system"}, {"content", plain_tools(tools)}});
  }
  return context;
}

Result<std::string> ChatDialect::render(std::span<const Message> messages, const ChatOptions& options,
                                        const Guard& guard) const {
  const bool parses = json_shape(options.tools) == JsonShape::good;
  const Json tools = options.tools.empty() ? Json::array() : Json::parse(parses ? options.tools : "", nullptr, false);
  if (!tools.is_array()) return fail(Errc::invalid_argument, "the tools are not JSON; expected a list of functions");
  Json variables = context(messages, tools);
  for (const char* name : {"messages", "tools"}) {
    if (variables.contains(name)) guard_strings(variables[name], guard);
  }
  QUIRE_TRY(std::string text, template_.render(variables));
  if (options.begins_call) text += before_call_;
  return text;
}

}  // namespace quire
