#include "server/fields.h"

#include <cmath>

#include "core/json_shape.h"

namespace quire::server {
std::string kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a truth value";
    default:
      return "a number";
  }
}

Api<Json> parse_object(std::string_view text) {
  if (text.empty()) return ApiError{400, "the body is empty; expected a JSON object", "", "", 0};
  switch (json_shape(text)) {
    case JsonShape::good:
      break;
    case JsonShape::deep:
      return ApiError{400, fmt::format("the body is nested more than {} levels deep", kDeepestJson), "", "", 0};
    case JsonShape::wide:
      return ApiError{400, fmt::format("the body holds an object of more than {} members", kWidestJson), "", "", 0};
  }
  try {
    Json parsed = Json::parse(text);
    if (!parsed.is_object()) {
      return ApiError{400, fmt::format("the body is {}; expected a JSON object", kind_of(parsed)), "", "", 0};
    }
    return parsed;
  } catch (const Json::parse_error& error) {
    return ApiError{400, fmt::format("the body is not JSON: it breaks off or goes wrong at byte {}", error.byte), "",
                    "", 0};
  } catch (const Json::exception&) {  // such as a number beyond what a double holds
    return ApiError{400, "the body holds a number that is out of range", "", "", 0};
  }
}

const Json* Fields::find(std::string_view name) const {
  const auto at = object_.find(name);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

Api<std::int64_t> Fields::integer(std::string_view name, std::int64_t otherwise, std::int64_t least,
                                  std::int64_t most) const {
  const Json* value = find(name);
  if (value == nullptr) return otherwise;
  const auto refused = [&](const std::string& what) {
    return bad_field(path_of(name), "{}; expected an integer from {} to {}", what, least, most);
  };
  if (value->is_number_float()) {
    // Clients that have only doubles write 5.0.
    const double x = value->get<double>();
    if (!(std::abs(x) < 9e15) || x != std::floor(x)) return refused(value->dump());
    const auto whole = static_cast<std::int64_t>(x);
    if (whole < least || whole > most) return refused(value->dump());
    return whole;
  }
  if (!value->is_number_integer()) return refused(kind_of(*value));
  if (value->is_number_unsigned() && value->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
    return refused(value->dump());
  }
  const auto x = value->get<std::int64_t>();
  if (x < least || x > most) return refused(value->dump());
  return x;
}

Api<double> Fields::number(std::string_view name, double otherwise, double least, double most) const {
  const Json* value = find(name);
  if (value == nullptr) return otherwise;
  const double x = value->is_number() ? value->get<double>() : NAN;
  if (!(x >= least && x <= most)) {
    return bad_field(path_of(name), "{}; expected a number from {} to {}",
                     value->is_number() ? value->dump() : kind_of(*value), least, most);
  }
  return x;
}

Api<bool> Fields::boolean(std::string_view name, bool otherwise) const {
  const Json* value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) return bad_field(path_of(name), "{}; expected true or false", kind_of(*value));
  return value->get<bool>();
}

Api<std::string> Fields::string(std::string_view name, std::string otherwise, std::size_t longest) const {
  const Json* value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) return bad_field(path_of(name), "{}; expected a string", kind_of(*value));
  auto text = value->get<std::string>();
  if (text.size() > longest) {
    return bad_field(path_of(name), "{} bytes; expected at most {}", text.size(), longest);
  }
  return text;
}

Api<std::vector<std::string>> Fields::strings(std::string_view name, std::size_t most) const {
  const Json* value = find(name);
  if (value == nullptr) return std::vector<std::string>();
  if (value->is_string()) return std::vector<std::string>{value->get<std::string>()};
  if (!value->is_array()) {
    return bad_field(path_of(name), "{}; expected a string or a list of strings", kind_of(*value));
  }
  if (value->size() > most) return bad_field(path_of(name), "{} strings; expected at most {}", value->size(), most);
  std::vector<std::string> all;
  for (const Json& item : *value) {
    if (!item.is_string()) return bad_field(path_of(name), "holds {}; expected strings", kind_of(item));
    all.push_back(item.get<std::string>());
  }
  return all;
}

Api<std::optional<Fields>> Fields::object(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::optional<Fields>();
  if (!value->is_object()) return bad_field(path_of(name), "{}; expected an object", kind_of(*value));
  return std::optional<Fields>(Fields(*value, path_of(name)));
}

}  // namespace quire::server
