#include "server/tools.h"

#include <algorithm>
#include <set>

namespace quire::server {
namespace {

constexpr std::size_t kMostTools = 128, kLongestName = 128, kMostCalls = 16;

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
  });
}

Api<Json> parameters_from(const Fields& function, const char* name) {
  QUIRE_TRY(const auto given, function.object(name));
  Json schema = given ? given->json() : Json::object();
  if (schema.empty()) schema = {{"type", "object"}, {"properties", Json::object()}};
  if (!schema.contains("type")) schema["type"] = "object";
  if (schema["type"] != "object") {
    return bad_field(function.path_of(name) + ".type", "arguments are an object; expected \"object\"");
  }
  return schema;
}

Api<Tools::Function> function_from(const Json& item, const std::string& path, ToolSpelling spelling) {
  if (!item.is_object()) return bad_field(path, "{}; expected an object", kind_of(item));
  const Fields tool(item, path);
  const bool anthropic = spelling == ToolSpelling::anthropic;
  const char* const kind = anthropic ? "custom" : "function";
  QUIRE_TRY(const std::string type, tool.string("type", anthropic ? kind : "", 64));
  if (type != kind) return bad_field(path + ".type", "'{}'; expected {}", type, kind);
  std::optional<Fields> function = tool;
  if (spelling == ToolSpelling::chat) {
    QUIRE_TRY(auto inner, tool.object("function"));
    if (!inner) return bad_field(path + ".function", "is missing");
    function.emplace(*inner);
  }
  Tools::Function made;
  QUIRE_TRY(made.name, function->string("name", ""));
  if (!is_name(made.name)) {
    return bad_field(function->path_of("name"), "expected 1 to {} letters, digits, '-' and '_'", kLongestName);
  }
  QUIRE_TRY(made.description, function->string("description", ""));
  QUIRE_TRY(made.parameters, parameters_from(*function, anthropic ? "input_schema" : "parameters"));
  return made;
}

Api<void> read_choice(const Fields& fields, ToolSpelling spelling, Tools& tools) {
  const bool anthropic = spelling == ToolSpelling::anthropic;
  const Json* value = fields.find("tool_choice");
  if (value == nullptr) return {};
  std::string type;
  if (value->is_string() && !anthropic) {
    type = value->get<std::string>();
  } else {
    QUIRE_TRY(const auto choice, fields.object("tool_choice"));
    QUIRE_TRY(type, choice->string("type", "", 64));
    if (type == (anthropic ? "tool" : "function")) {
      std::optional<Fields> holder = choice;
      if (spelling == ToolSpelling::chat) {
        QUIRE_TRY(const auto inner, choice->object("function"));
        if (!inner) return bad_field("tool_choice.function", "is missing");
        holder.emplace(*inner);
      }
      QUIRE_TRY(tools.named, holder->string("name", ""));
      const bool known = std::any_of(tools.functions.begin(), tools.functions.end(),
                                     [&](const Tools::Function& f) { return f.name == tools.named; });
      if (!known) return bad_field(holder->path_of("name"), "is the name of no function among 'tools'");
      tools.choice = Tools::Choice::enforced;
      return {};
    }
  }
  if (type == "none") {
    tools.choice = Tools::Choice::none;
  } else if (type == (anthropic ? "any" : "required")) {
    tools.choice = Tools::Choice::enforced;
  } else if (type != "auto") {
    return bad_field("tool_choice", "expected {}",
                     anthropic ? "an object of type auto, any, tool or none" : "none, auto, required or a function");
  }
  if (tools.choice == Tools::Choice::enforced && tools.functions.empty()) {
    return bad_field("tool_choice", "asks for a call, and there are no 'tools'");
  }
  return {};
}

Api<void> read_parallel(const Fields& fields, ToolSpelling spelling, Tools& tools) {
  if (spelling != ToolSpelling::anthropic) {
    QUIRE_TRY(tools.several, fields.boolean("parallel_tool_calls", true));
    tools.asked_several = tools.several && fields.has("parallel_tool_calls");
    return {};
  }
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr) return {};
  QUIRE_TRY(const bool one, Fields(*choice, "tool_choice").boolean("disable_parallel_tool_use", false));
  tools.several = !one;
  return {};
}

// A schema that is to stand elsewhere: what referred to its root refers to the new place.
Json moved(const Json& schema, const std::string& to) {
  if (!schema.is_structured()) return schema;
  Json copy = schema;
  for (auto& [key, value] : copy.items()) {
    if (schema.is_object() && key == "$ref" && value.is_string() && value.get<std::string>().starts_with('#')) {
      value = to + value.get<std::string>().substr(1);
    } else {
      value = moved(value, to);
    }
  }
  return copy;
}

// {"name": ..., "arguments": ...} of any of the functions that may be called, or what else may be said.
Json call_schema(const Tools& tools, const Json* otherwise) {
  Json places = Json::object(), options = Json::array();
  const auto place = [&](const Json& schema) {
    const std::string name = fmt::format("s{}", places.size()), path = "#/$defs/" + name;
    places[name] = moved(schema, path);
    return Json{{"$ref", path}};
  };
  for (const Tools::Function& function : tools.functions) {
    if (!tools.named.empty() && function.name != tools.named) continue;
    options.push_back(
        {{"type", "object"},
         {"properties", {{"name", {{"const", function.name}}}, {"arguments", place(function.parameters)}}},
         {"required", {"name", "arguments"}},
         {"additionalProperties", false}});
  }
  if (otherwise != nullptr) options.push_back(place(*otherwise));
  Json schema{{"anyOf", std::move(options)}};
  if (tools.rules().mode == CallRules::Mode::list) {
    schema = {{"type", "array"}, {"items", std::move(schema)}, {"minItems", 1}, {"maxItems", kMostCalls}};
  }
  schema["$defs"] = std::move(places);
  return schema;
}

}  // namespace

ChatOptions Tools::chat_options() const {
  if (choice == Choice::none || functions.empty()) return {};
  Json list = Json::array();
  for (const Function& f : functions) {
    Json function{{"name", f.name}};
    if (!f.description.empty()) function["description"] = f.description;
    function["parameters"] = f.parameters;
    list.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return {list.dump(), rules().mode == CallRules::Mode::one};
}

CallRules Tools::rules() const {
  CallRules rules;
  if (choice == Choice::none || functions.empty()) return rules;
  for (const Function& f : functions) rules.names.push_back(f.name);
  rules.mode = choice == Choice::free ? CallRules::Mode::free
               : asked_several        ? CallRules::Mode::list
                                      : CallRules::Mode::one;
  rules.several = several;
  return rules;
}

Api<Tools> tools_from(const Fields& fields, ToolSpelling spelling) {
  Tools tools;
  if (const Json* list = fields.find("tools")) {
    if (!list->is_array()) return bad_field("tools", "{}; expected a list of functions", kind_of(*list));
    if (list->size() > kMostTools)
      return bad_field("tools", "{} of them; expected at most {}", list->size(), kMostTools);
    std::set<std::string> names;
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string path = fmt::format("tools[{}]", i);
      QUIRE_TRY(Tools::Function function, function_from((*list)[i], path, spelling));
      if (!names.insert(function.name).second) return bad_field(path, "another function has the same name");
      tools.functions.push_back(std::move(function));
    }
  }
  if (!tools.functions.empty()) tools.choice = Tools::Choice::free;
  if (auto read = read_choice(fields, spelling, tools); !read.ok()) return read.error();
  if (auto read = read_parallel(fields, spelling, tools); !read.ok()) return read.error();
  return tools;
}

Api<void> constrain(Request& request, const Tools& tools) {
  using Kind = OutputFormat::Kind;
  OutputFormat& format = request.format;
  if (tools.choice == Tools::Choice::enforced) {
    if (format.kind == Kind::gbnf || format.kind == Kind::regex) {
      return bad_field("tool_choice",
                       "asks for a call, and a grammar or regex for something else; expected one of them");
    }
    format = {Kind::schema, call_schema(tools, nullptr).dump()};
    request.stop.clear();  // half a call is none
  } else if (tools.choice == Tools::Choice::free && format.kind == Kind::schema) {
    const Json otherwise = Json::parse(format.source);
    format.source = call_schema(tools, &otherwise).dump();
  }
  return {};
}

}  // namespace quire::server
