// The types of JSON schema: strings, numbers, arrays, objects.
#include <algorithm>
#include <set>

#include "core/fail.h"
#include "grammar/schema.h"
#include "grammar/schema_numbers.h"
#include "grammar/schema_strings.h"

namespace quire::grammar {

using Expr = GrammarBuilder::Expr;

namespace {

constexpr std::uint32_t kLargestDivisor = 100;

}  // namespace

Result<std::uint32_t> SchemaCompiler::count_of(const Schema& schema, std::string_view keyword, std::uint32_t otherwise,
                                               const Place& place) const {
  const auto found = schema.find(keyword);
  if (found == schema.end()) return otherwise;
  if (!found->is_number_unsigned() || found->get<std::uint64_t>() >= GrammarBuilder::kUnbounded) {
    return fail(Errc::invalid_argument, "schema {}/{}: a count was expected", place.path, keyword);
  }
  return found->get<std::uint32_t>();
}

RegexContext SchemaCompiler::within_string() {
  return {.spell = [this](const CodePointSet& set) { return json_.spelled(set); },
          .around = builder_.repeat(json_.string_char(), 0, GrammarBuilder::kUnbounded)};
}

Result<Expr> SchemaCompiler::compile_string(const Schema& schema, const Place& place) {
  const bool has_length = schema.contains("minLength") || schema.contains("maxLength");
  const bool has_pattern = schema.contains("pattern");
  const bool has_format = schema.contains("format");
  if (int{has_length} + int{has_pattern} + int{has_format} > 1) {
    return fail(Errc::unsupported, "schema {}: of lengths, pattern and format only one is supported at a time",
                place.path);
  }
  if (has_length) {
    QUIRE_TRY(const std::uint32_t least, count_of(schema, "minLength", 0, place));
    QUIRE_TRY(const std::uint32_t most, count_of(schema, "maxLength", GrammarBuilder::kUnbounded, place));
    if (least > most) return fail(Errc::invalid_argument, "schema {}: minLength is above maxLength", place.path);
    return json_.quoted(builder_.repeat(json_.string_char(), least, most));
  }
  if (!has_pattern && !has_format) return json_.string();

  const std::string_view keyword = has_pattern ? "pattern" : "format";
  const Schema& named = schema[std::string(keyword)];
  if (!named.is_string()) {
    return fail(Errc::invalid_argument, "schema {}/{}: a string was expected", place.path, keyword);
  }
  auto pattern = named.get<std::string>();
  if (has_format) {
    const auto known = pattern_of_format(pattern);
    if (!known) return fail(Errc::unsupported, "schema {}: format '{}' is not supported", place.path, pattern);
    pattern = *known;
  }
  const Result<Expr> content = regex_expression(builder_, pattern, within_string());
  if (!content.ok()) {
    return fail(content.error().code, "schema {}/{}: {}", place.path, keyword, content.error().message);
  }
  return json_.quoted(*content);
}

Result<Expr> SchemaCompiler::compile_number(const Schema& schema, bool integer, const Place& place) {
  NumberBounds bounds;
  const auto read = [&](std::string_view keyword, bool is_low, bool exclusive) -> Result<void> {
    const auto found = schema.find(keyword);
    if (found == schema.end()) return {};
    if (!found->is_number())
      return fail(Errc::invalid_argument, "schema {}/{}: a number was expected", place.path, keyword);
    const auto value = found->get<double>();
    std::optional<NumberBound>& bound = is_low ? bounds.low : bounds.high;
    const bool is_tighter = !bound || (is_low ? value >= bound->value : value <= bound->value);
    if (is_tighter) bound = NumberBound{value, exclusive};
    return {};
  };
  QUIRE_CHECK_OK(read("minimum", true, false));
  QUIRE_CHECK_OK(read("exclusiveMinimum", true, true));
  QUIRE_CHECK_OK(read("maximum", false, false));
  QUIRE_CHECK_OK(read("exclusiveMaximum", false, true));
  const bool bounded = bounds.low || bounds.high;

  const auto divisor = schema.find("multipleOf");
  if (divisor != schema.end() && *divisor != 1) {
    const bool is_small = divisor->is_number_unsigned() && *divisor > 0 && *divisor <= kLargestDivisor;
    if (!integer || bounded || !is_small) {
      return fail(Errc::unsupported, "schema {}/multipleOf: supported for integers without bounds, from 1 to {}",
                  place.path, kLargestDivisor);
    }
    return builder_.call(builder_.add(multiple_of(builder_, divisor->get<std::uint32_t>())));
  }
  const bool whole = integer || divisor != schema.end();
  if (!bounded) return whole ? json_.integer() : json_.number();
  QUIRE_TRY(const Expr digits,
            whole ? bounded_integer(builder_, bounds, place.path) : bounded_number(builder_, bounds, place.path));
  return builder_.call(builder_.add(digits));
}

Result<Expr> SchemaCompiler::compile_array(const Schema& schema, const Place& place) {
  QUIRE_TRY(const std::uint32_t least, count_of(schema, "minItems", 0, place));
  QUIRE_TRY(const std::uint32_t most, count_of(schema, "maxItems", GrammarBuilder::kUnbounded, place));
  if (least > most) return fail(Errc::invalid_argument, "schema {}: minItems is above maxItems", place.path);

  const auto items = schema.find("items");
  const bool no_more = items != schema.end() && *items == false;
  Expr item = json_.value();
  if (items != schema.end() && !no_more) {
    QUIRE_TRY(item, compile(*items, place.below("items")));
  }
  std::vector<Expr> parts{builder_.literal("[")};
  const auto first = schema.find("prefixItems");
  if (first == schema.end()) {
    parts.push_back(json_.list(item, least, no_more ? 0 : most));
    if (no_more && least > 0) return fail(Errc::invalid_argument, "schema {}: no items, and minItems", place.path);
  } else {
    if (!first->is_array() || first->empty() || first->size() > most) {
      return fail(Errc::invalid_argument, "schema {}/prefixItems: a list of at most maxItems schemas was expected",
                  place.path);
    }
    // All of the first are written, though a schema that demands fewer would allow it.
    const auto count = static_cast<std::uint32_t>(first->size());
    for (std::uint32_t i = 0; i < count; ++i) {
      QUIRE_TRY(const Expr one, compile((*first)[i], place.below("prefixItems").below(std::to_string(i))));
      if (i > 0) parts.push_back(json_.comma());
      parts.push_back(one);
    }
    const std::uint32_t more = no_more ? 0 : most == GrammarBuilder::kUnbounded ? most : most - count;
    const std::uint32_t needed = least > count ? least - count : 0;
    if (needed > more) return fail(Errc::invalid_argument, "schema {}: too few items for minItems", place.path);
    parts.push_back(
        builder_.repeat(builder_.sequence({json_.comma(), builder_.call(builder_.add(item))}), needed, more));
  }
  parts.push_back(builder_.literal("]"));
  return builder_.call(builder_.add(builder_.sequence(std::move(parts))));
}

Result<Expr> SchemaCompiler::compile_object(const Schema& schema, const Place& place) {
  const bool names_properties = schema.contains("properties");
  const auto stated = schema.find("additionalProperties");
  std::optional<Expr> additional;
  if (stated == schema.end() ? !names_properties : *stated != false) {
    additional = json_.value();
    if (stated != schema.end()) {
      QUIRE_TRY(additional, compile(*stated, place.below("additionalProperties")));
    }
  }
  QUIRE_TRY(const std::vector<Property> properties, compile_properties(schema, additional, place));
  return builder_.call(
      builder_.add(builder_.sequence({builder_.literal("{"), members(properties, additional), builder_.literal("}")})));
}

Result<std::vector<SchemaCompiler::Property>> SchemaCompiler::compile_properties(const Schema& schema,
                                                                                 std::optional<Expr> additional,
                                                                                 const Place& place) {
  std::set<std::string> required;
  if (const auto listed = schema.find("required"); listed != schema.end()) {
    const bool are_names = listed->is_array() && std::all_of(listed->begin(), listed->end(),
                                                             [](const Schema& name) { return name.is_string(); });
    if (!are_names) return fail(Errc::invalid_argument, "schema {}/required: a list of names was expected", place.path);
    required = listed->get<std::set<std::string>>();
  }
  std::vector<Property> properties;
  const auto add = [&](const std::string& name, Expr value) {
    const Expr member = builder_.sequence({builder_.literal(Schema(name).dump()), json_.colon(), value});
    properties.push_back({name, builder_.call(builder_.add(member)), required.erase(name) > 0});
  };
  if (const auto listed = schema.find("properties"); listed != schema.end()) {
    if (!listed->is_object()) {
      return fail(Errc::invalid_argument, "schema {}/properties: an object was expected", place.path);
    }
    for (const auto& item : listed->items()) {
      QUIRE_TRY(const Expr value, compile(item.value(), place.below("properties").below(item.key())));
      add(item.key(), value);
    }
  }
  for (const std::string& name : std::set(required)) {
    if (!additional) {
      return fail(Errc::invalid_argument, "schema {}: '{}' is required and not among the properties", place.path, name);
    }
    add(name, *additional);
  }
  return properties;
}

// From the last property to the first: what may follow, once when something stands before it and once when not.
Expr SchemaCompiler::members(const std::vector<Property>& properties, std::optional<Expr> additional) {
  Expr rest_after_some = builder_.empty();
  Expr rest_at_start = builder_.empty();
  if (additional) {
    std::vector<std::string> names;
    names.reserve(properties.size());
    for (const Property& property : properties) names.push_back(property.name);
    const Expr other = builder_.sequence({json_.key_other_than(names), json_.colon(), *additional});
    const Expr shared = builder_.call(builder_.add(other));
    rest_after_some = builder_.repeat(builder_.sequence({json_.comma(), shared}), 0, GrammarBuilder::kUnbounded);
    rest_at_start = json_.list(shared, 0, GrammarBuilder::kUnbounded);
  }
  for (std::size_t i = properties.size(); i-- > 0;) {
    const Property& property = properties[i];
    const Expr shared_rest = builder_.call(builder_.add(rest_after_some));
    const Expr with_comma = builder_.sequence({json_.comma(), property.member, shared_rest});
    const Expr first = builder_.sequence({property.member, shared_rest});
    rest_at_start = property.required ? first : builder_.choice({first, builder_.call(builder_.add(rest_at_start))});
    rest_after_some = property.required ? with_comma : builder_.choice({with_comma, shared_rest});
  }
  return rest_at_start;
}

}  // namespace quire::grammar
