#include "grammar/schema_keywords.h"

#include <algorithm>
#include <array>
#include <span>

#include "core/fail.h"

namespace quire::grammar {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::array<std::string_view, 12> kRemarks{"title",      "description", "default",   "examples",
                                                    "deprecated", "readOnly",    "$schema",   "$id",
                                                    "$defs",      "$comment",    "writeOnly", "definitions"};
constexpr std::array<std::string_view, 4> kOfStrings{"minLength", "maxLength", "pattern", "format"};
constexpr std::array<std::string_view, 5> kOfNumbers{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
                                                     "multipleOf"};
constexpr std::array<std::string_view, 4> kOfArrays{"items", "prefixItems", "minItems", "maxItems"};
constexpr std::array<std::string_view, 3> kOfObjects{"properties", "required", "additionalProperties"};

Names keywords_of(std::string_view type) {
  if (type == "string") return kOfStrings;
  if (type == "number" || type == "integer") return kOfNumbers;
  if (type == "array") return kOfArrays;
  if (type == "object") return kOfObjects;
  return {};
}

bool contains(Names names, std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); }

}  // namespace

Result<void> refuse_other_keywords(const nlohmann::ordered_json& schema, const std::vector<std::string_view>& known,
                                   const std::string& path) {
  for (const auto& item : schema.items()) {
    if (contains(known, item.key()) || contains(kRemarks, item.key())) continue;
    return fail(Errc::unsupported, "schema {}: keyword '{}' is not supported{}", path, item.key(),
                known.empty() ? "" : fmt::format(" beside '{}'", known.front()));
  }
  return {};
}

std::vector<std::string_view> keywords_of_types(const std::vector<std::string>& types) {
  std::vector<std::string_view> keywords{"type"};
  for (const std::string& type : types) {
    const Names names = keywords_of(type);
    keywords.insert(keywords.end(), names.begin(), names.end());
  }
  return keywords;
}

std::string_view type_by_keywords(const nlohmann::ordered_json& schema) {
  for (const std::string_view type : {"object", "array", "string", "number"}) {
    const Names names = keywords_of(type);
    if (std::any_of(names.begin(), names.end(), [&](std::string_view name) { return schema.contains(name); }))
      return type;
  }
  return "";
}

}  // namespace quire::grammar
