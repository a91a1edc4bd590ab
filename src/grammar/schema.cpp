#include "grammar/schema.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/fail.h"
#include "grammar/schema_keywords.h"
#include "grammar/source_reader.h"

namespace quire {
namespace grammar {
namespace {

constexpr std::array kTypes{"string", "number", "integer", "boolean", "null", "object", "array"};

bool is_of_type(const SchemaCompiler::Schema& value, std::string_view type) {
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  if (type == "integer") return value.is_number_integer();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "object") return value.is_object();
  return value.is_array();
}

bool deeper_than(const SchemaCompiler::Schema& value, int depth) {
  if (depth == 0) return true;
  return value.is_structured() && std::any_of(value.begin(), value.end(), [&](const SchemaCompiler::Schema& part) {
           return deeper_than(part, depth - 1);
         });
}

std::string unescaped(std::string_view step) {
  std::string out;
  for (std::size_t i = 0; i < step.size(); ++i) {
    const bool escaped = step[i] == '~' && i + 1 < step.size() && (step[i + 1] == '0' || step[i + 1] == '1');
    out += !escaped ? step[i] : step[++i] == '0' ? '~' : '/';
  }
  return out;
}

}  // namespace

Result<Grammar> SchemaCompiler::run() {
  const Rule root = builder_.declare("#");
  references_.emplace("#", root);
  pending_.emplace_back("#", root);
  while (!pending_.empty()) {
    const auto [reference, rule] = pending_.front();
    pending_.pop_front();
    QUIRE_TRY(const Schema* const target, resolve(reference, {reference, 0}));
    QUIRE_TRY(const Expr body, compile(*target, {reference, 0}));
    builder_.define(rule, body);
  }
  return builder_.build(root);
}

Result<SchemaCompiler::Expr> SchemaCompiler::compile(const Schema& schema, const Place& place) {
  if (place.depth > kDeepestNesting) {
    return fail(Errc::unsupported, "schema {}: more than {} schemas in each other", place.path, kDeepestNesting);
  }
  if (schema.is_boolean() && schema.get<bool>()) return json_.value();
  if (!schema.is_object()) return fail(Errc::invalid_argument, "schema {}: an object was expected", place.path);
  if (schema.contains("$ref")) return compile_reference(schema, place);
  if (schema.contains("anyOf")) return compile_any_of(schema, "anyOf", place);
  if (schema.contains("allOf")) return compile_any_of(schema, "allOf", place);
  if (schema.contains("enum") || schema.contains("const")) return compile_values(schema, place);

  QUIRE_TRY(const std::vector<std::string> types, types_of(schema, place));
  if (types.empty()) {
    QUIRE_CHECK_OK(refuse_other_keywords(schema, {}, place.path));
    return json_.value();
  }
  QUIRE_CHECK_OK(refuse_other_keywords(schema, keywords_of_types(types), place.path));
  std::vector<Expr> options;
  for (const std::string& type : types) {
    QUIRE_TRY(const Expr option, compile_typed(schema, type, place));
    options.push_back(option);
  }
  return builder_.choice(std::move(options));
}

Result<SchemaCompiler::Expr> SchemaCompiler::compile_typed(const Schema& schema, std::string_view type,
                                                           const Place& place) {
  if (type == "string") return compile_string(schema, place);
  if (type == "number") return compile_number(schema, false, place);
  if (type == "integer") return compile_number(schema, true, place);
  if (type == "boolean") return json_.boolean();
  if (type == "null") return json_.null();
  return type == "object" ? compile_object(schema, place) : compile_array(schema, place);
}

Result<std::vector<std::string>> SchemaCompiler::types_of(const Schema& schema, const Place& place) const {
  std::vector<std::string> types;
  const auto type = schema.find("type");
  if (type == schema.end()) {
    const std::string_view spoken_of = type_by_keywords(schema);
    if (!spoken_of.empty()) types.emplace_back(spoken_of);
    return types;
  }
  const Schema listed = type->is_array() ? *type : Schema::array({*type});
  for (const Schema& one : listed) {
    const auto known = std::find_if(kTypes.begin(), kTypes.end(), [&](const char* name) { return one == name; });
    if (known == kTypes.end()) {
      return fail(Errc::invalid_argument, "schema {}/type: expected {}, or a list of them", place.path,
                  fmt::join(kTypes, ", "));
    }
    if (std::find(types.begin(), types.end(), *known) == types.end()) types.emplace_back(*known);
  }
  if (types.empty()) return fail(Errc::invalid_argument, "schema {}/type: the list is empty", place.path);
  return types;
}

Result<SchemaCompiler::Expr> SchemaCompiler::compile_reference(const Schema& schema, const Place& place) {
  QUIRE_CHECK_OK(refuse_other_keywords(schema, {"$ref"}, place.path));
  const Schema& reference = schema["$ref"];
  if (!reference.is_string()) return fail(Errc::invalid_argument, "schema {}/$ref: a string was expected", place.path);
  const auto name = reference.get<std::string>();
  QUIRE_CHECK_OK(resolve(name, place));
  const auto known = references_.find(name);
  if (known != references_.end()) return builder_.call(known->second);
  const Rule rule = builder_.declare(name);
  references_.emplace(name, rule);
  pending_.emplace_back(name, rule);
  return builder_.call(rule);
}

Result<const SchemaCompiler::Schema*> SchemaCompiler::resolve(const std::string& reference, const Place& place) const {
  const auto unknown = [&] {
    return fail(Errc::invalid_argument, "schema {}: $ref '{}' leads nowhere; expected #, #/$defs/name or the like",
                place.path, reference);
  };
  if (!reference.starts_with('#')) return unknown();
  const Schema* at = &root_;
  std::string_view rest = std::string_view(reference).substr(1);
  while (!rest.empty()) {
    if (rest[0] != '/') return unknown();
    const std::size_t end = std::min(rest.find('/', 1), rest.size());
    const std::string step = unescaped(rest.substr(1, end - 1));
    rest.remove_prefix(end);
    if (at->is_object() && at->contains(step)) {
      at = &at->at(step);
    } else if (at->is_array() && !step.empty() && step.size() < 9 &&
               step.find_first_not_of("0123456789") == step.npos && std::stoul(step) < at->size()) {
      at = &at->at(std::stoul(step));
    } else {
      return unknown();
    }
  }
  return at;
}

// allOf of one schema is that schema; more would be an intersection, which a grammar has not.
Result<SchemaCompiler::Expr> SchemaCompiler::compile_any_of(const Schema& schema, std::string_view keyword,
                                                            const Place& place) {
  QUIRE_CHECK_OK(refuse_other_keywords(schema, {keyword}, place.path));
  const Schema& listed = schema[std::string(keyword)];
  if (!listed.is_array() || listed.empty()) {
    return fail(Errc::invalid_argument, "schema {}/{}: a list of schemas was expected", place.path, keyword);
  }
  if (keyword == "allOf" && listed.size() > 1) {
    return fail(Errc::unsupported, "schema {}/allOf: more than one schema is not supported; join them", place.path);
  }
  std::vector<Expr> options;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    QUIRE_TRY(const Expr option, compile(listed[i], place.below(keyword).below(std::to_string(i))));
    options.push_back(option);
  }
  return builder_.choice(std::move(options));
}

Result<SchemaCompiler::Expr> SchemaCompiler::compile_values(const Schema& schema, const Place& place) {
  QUIRE_CHECK_OK(refuse_other_keywords(schema, {"enum", "const", "type"}, place.path));
  Schema values = Schema::array();
  if (schema.contains("enum")) {
    if (!schema["enum"].is_array())
      return fail(Errc::invalid_argument, "schema {}/enum: a list was expected", place.path);
    values = schema["enum"];
  }
  if (schema.contains("const")) {
    const Schema& only = schema["const"];
    if (schema.contains("enum") && std::find(values.begin(), values.end(), only) == values.end()) {
      return fail(Errc::invalid_argument, "schema {}: const is not among enum", place.path);
    }
    values = Schema::array({only});
  }
  QUIRE_TRY(const std::vector<std::string> types, types_of(schema, place));
  std::vector<std::string> texts;
  for (const Schema& value : values) {
    const bool of_type = types.empty() || std::any_of(types.begin(), types.end(),
                                                      [&](const std::string& type) { return is_of_type(value, type); });
    if (!of_type) continue;
    if (deeper_than(value, kDeepestNesting)) {
      return fail(Errc::unsupported, "schema {}: a value is nested more than {} deep", place.path, kDeepestNesting);
    }
    texts.push_back(value.dump());
  }
  if (texts.empty()) return fail(Errc::invalid_argument, "schema {}: no value is of the type", place.path);
  return builder_.one_of(std::move(texts));
}

}  // namespace grammar

Result<Grammar> grammar_of_schema(std::string_view schema) {
  using grammar::SchemaCompiler;
  QUIRE_CHECK_OK(grammar::check_source(schema, "schema"));
  const auto parsed = SchemaCompiler::Schema::parse(schema, nullptr, false);
  if (parsed.is_discarded()) return fail(Errc::invalid_argument, "the schema is not JSON");
  return SchemaCompiler(parsed).run();
}

}  // namespace quire
