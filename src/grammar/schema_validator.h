// Whether a value is valid by a JSON schema, worked out on the value: an oracle for the grammars, which work on bytes.
#pragma once

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

namespace quire::testing_support {

using Json = nlohmann::ordered_json;

inline bool is_of_type(const Json& value, const std::string& type) {
  if (type == "integer") return value.is_number() && value.get<double>() == std::floor(value.get<double>());
  if (type == "number") return value.is_number();
  return type == value.type_name();
}

inline std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

inline bool is_valid(const Json& value, const Json& schema, const Json& root);

inline bool keyword_holds(const Json& value, const std::string& keyword, const Json& rule, const Json& schema,
                          const Json& root) {
  const auto valid = [&](const Json& part, const Json& by) { return is_valid(part, by, root); };
  if (keyword == "$ref") return valid(value, root.at(Json::json_pointer(rule.get<std::string>().substr(1))));
  if (keyword == "anyOf") return std::any_of(rule.begin(), rule.end(), [&](const Json& s) { return valid(value, s); });
  if (keyword == "allOf") return std::all_of(rule.begin(), rule.end(), [&](const Json& s) { return valid(value, s); });
  if (keyword == "enum") return std::find(rule.begin(), rule.end(), value) != rule.end();
  if (keyword == "const") return value == rule;
  if (keyword == "type") {
    const Json types = rule.is_array() ? rule : Json::array({rule});
    return std::any_of(types.begin(), types.end(), [&](const Json& t) { return is_of_type(value, t); });
  }
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    if (keyword == "minLength") return characters(text) >= rule;
    if (keyword == "maxLength") return characters(text) <= rule;
    if (keyword == "pattern") return std::regex_search(text, std::regex(rule.get<std::string>()));
  }
  if (value.is_number()) {
    const auto number = value.get<double>();
    if (keyword == "minimum") return number >= rule.get<double>();
    if (keyword == "maximum") return number <= rule.get<double>();
    if (keyword == "exclusiveMinimum") return number > rule.get<double>();
    if (keyword == "exclusiveMaximum") return number < rule.get<double>();
    if (keyword == "multipleOf") return std::fmod(number, rule.get<double>()) == 0;
  }
  if (value.is_array()) {
    if (keyword == "minItems") return value.size() >= rule;
    if (keyword == "maxItems") return value.size() <= rule;
    const std::size_t first = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (keyword == "prefixItems" && i < first && !valid(value[i], rule[i])) return false;
      if (keyword == "items" && i >= first && !valid(value[i], rule)) return false;
    }
  }
  if (value.is_object()) {
    if (keyword == "required") {
      return std::all_of(rule.begin(), rule.end(), [&](const Json& n) { return value.contains(n.get<std::string>()); });
    }
    for (const auto& item : value.items()) {
      const bool named = schema.contains("properties") && schema["properties"].contains(item.key());
      if (keyword == "properties" && named && !valid(item.value(), rule[item.key()])) return false;
      if (keyword == "additionalProperties" && !named && !valid(item.value(), rule)) return false;
    }
  }
  return true;
}

inline bool is_valid(const Json& value, const Json& schema, const Json& root) {
  if (schema.is_boolean()) return schema.get<bool>();
  const auto& items = schema.items();
  return std::all_of(items.begin(), items.end(),
                     [&](const auto& item) { return keyword_holds(value, item.key(), item.value(), schema, root); });
}

inline bool is_valid_text(const std::string& text, const std::string& schema) {
  const Json value = Json::parse(text, nullptr, false);
  const Json rules = Json::parse(schema);
  return !value.is_discarded() && is_valid(value, rules, rules);
}

}  // namespace quire::testing_support
