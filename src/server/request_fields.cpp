#include "server/request_fields.h"

#include <atomic>
#include <charconv>
#include <chrono>

namespace quire::server {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;
constexpr std::size_t kMostStops = 16, kMostBiases = 1024;

Api<std::int64_t> max_tokens_from(const Fields& fields) {
  for (const char* name : {"max_completion_tokens", "max_output_tokens", "max_tokens", "n_predict"}) {
    if (fields.has(name)) return fields.integer(name, -1, std::string_view(name) == "n_predict" ? -1 : 1, kMostTokens);
  }
  return std::int64_t{-1};
}

Api<std::vector<std::pair<TokenId, float>>> biases_from(const Fields& fields) {
  std::vector<std::pair<TokenId, float>> biases;
  QUIRE_TRY(const auto object, fields.object("logit_bias"));
  if (!object) return biases;
  if (object->json().size() > kMostBiases) {
    return bad_field("logit_bias", "{} tokens; expected at most {}", object->json().size(), kMostBiases);
  }
  for (const auto& [name, value] : object->json().items()) {
    TokenId token = 0;
    const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), token);
    if (code != std::errc() || end != name.data() + name.size() || token < 0) {
      return bad_field("logit_bias", "a key that is no token id; expected a number such as \"123\"");
    }
    QUIRE_TRY(const double bias, object->number(name, 0, -100, 100));
    biases.emplace_back(token, static_cast<float>(bias));
  }
  return biases;
}

Api<SamplingOptions> sampling_from(const Fields& fields) {
  SamplingOptions s;
  // Defaults are OpenAI's where it has one: what its clients leave out means its value.
  QUIRE_TRY(const double temperature, fields.number("temperature", 1, 0, 10));
  QUIRE_TRY(const double top_p, fields.number("top_p", 1, 0, 1));
  QUIRE_TRY(const double min_p, fields.number("min_p", 0, 0, 1));
  QUIRE_TRY(const double typical_p, fields.number("typical_p", 1, 0, 1));
  QUIRE_TRY(const double repeat,
            fields.number(fields.has("repeat_penalty") ? "repeat_penalty" : "repetition_penalty", 1, 0.01, 10));
  QUIRE_TRY(const double presence, fields.number("presence_penalty", 0, -2, 2));
  QUIRE_TRY(const double frequency, fields.number("frequency_penalty", 0, -2, 2));
  QUIRE_TRY(const std::int64_t top_k, fields.integer("top_k", 0, -1, 1 << 30));
  QUIRE_TRY(const std::int64_t last, fields.integer("repeat_last_n", 64, 0, 1 << 20));
  QUIRE_TRY(const std::int64_t seed, fields.integer("seed", 0, INT64_MIN, INT64_MAX));
  QUIRE_TRY(s.logit_bias, biases_from(fields));
  s.temperature = static_cast<float>(temperature);
  s.top_p = static_cast<float>(top_p);
  s.min_p = static_cast<float>(min_p);
  s.typical_p = static_cast<float>(typical_p);
  s.repeat_penalty = static_cast<float>(repeat);
  s.presence_penalty = static_cast<float>(presence);
  s.frequency_penalty = static_cast<float>(frequency);
  s.top_k = top_k < 0 ? 0 : static_cast<int>(top_k);
  s.repeat_last = static_cast<int>(last);
  if (fields.has("seed")) {
    s.seed = static_cast<std::uint64_t>(seed);
  } else {
    static std::atomic<std::uint64_t> next{
        static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count())};
    s.seed = next.fetch_add(0x9E3779B97F4A7C15u);
  }
  return s;
}

Api<OutputFormat> format_from(const Fields& fields) {
  OutputFormat format;
  QUIRE_TRY(const std::string grammar, fields.string("grammar", ""));
  QUIRE_TRY(const std::string regex, fields.string("regex", ""));
  QUIRE_TRY(const auto response_format, fields.object("response_format"));
  const int given = !grammar.empty() + !regex.empty() + response_format.has_value() + fields.has("json_schema");
  if (given > 1)
    return bad_field("response_format", "given beside a grammar, a regex or a schema; expected one of them");
  if (!grammar.empty()) return OutputFormat{OutputFormat::Kind::gbnf, grammar};
  if (!regex.empty()) return OutputFormat{OutputFormat::Kind::regex, regex};
  if (fields.has("json_schema")) {
    QUIRE_TRY(const auto schema, fields.object("json_schema"));
    return OutputFormat{OutputFormat::Kind::schema, schema->json().dump()};
  }
  if (!response_format) return format;
  QUIRE_TRY(const std::string type, response_format->string("type", ""));
  if (type == "text") return format;
  if (type == "json_object") {
    if (response_format->has("schema")) {  // llama.cpp's spelling
      QUIRE_TRY(const auto schema, response_format->object("schema"));
      return OutputFormat{OutputFormat::Kind::schema, schema->json().dump()};
    }
    return OutputFormat{OutputFormat::Kind::json, ""};
  }
  if (type != "json_schema") {
    return bad_field("response_format.type", "'{}'; expected text, json_object or json_schema", type.substr(0, 50));
  }
  QUIRE_TRY(const auto wrapper, response_format->object("json_schema"));
  if (!wrapper) return bad_field("response_format.json_schema", "is missing");
  QUIRE_TRY(const auto schema, wrapper->object("schema"));
  if (!schema) return bad_field("response_format.json_schema.schema", "is missing");
  return OutputFormat{OutputFormat::Kind::schema, schema->json().dump()};
}

Api<std::vector<TokenId>> tokens_from(const Json& list, const std::string& name, const Model& model) {
  std::vector<TokenId> tokens;
  tokens.reserve(list.size());
  for (const Json& item : list) {
    if (!item.is_number_integer() || item.get<std::int64_t>() < 0 ||
        item.get<std::int64_t>() >= model.info().vocabulary) {
      return bad_field(name, "holds {}; expected token ids from 0 to {}",
                       item.is_number() ? item.dump() : kind_of(item), model.info().vocabulary - 1);
    }
    tokens.push_back(item.get<TokenId>());
  }
  if (tokens.empty()) return bad_field(name, "holds no token");
  return tokens;
}

Api<Speculation> speculation_from(const Fields& fields) {
  QUIRE_TRY(const std::string name, fields.string("speculation", "off"));
  if (name == "off") return Speculation::off;
  if (name == "prompt_lookup") return Speculation::prompt_lookup;
  if (name == "draft_model") return Speculation::draft_model;
  return bad_field("speculation", "'{}'; expected off, prompt_lookup or draft_model", name.substr(0, 50));
}

}  // namespace

Api<std::vector<std::string>> stops_from(const Fields& fields, std::string_view name) {
  QUIRE_TRY(std::vector<std::string> stops, fields.strings(name, kMostStops));
  for (const std::string& stop : stops) {
    if (stop.empty() || stop.size() > 1024)
      return bad_field(std::string(name), "a string of {} bytes; expected 1 to 1024", stop.size());
  }
  return stops;
}

Api<Request> request_from(const Fields& fields, const Caller& caller) {
  Request request;
  QUIRE_TRY(request.sampling, sampling_from(fields));
  QUIRE_TRY(request.max_tokens, max_tokens_from(fields));
  QUIRE_TRY(request.stop, stops_from(fields, "stop"));
  QUIRE_TRY(request.ignore_end, fields.boolean("ignore_eos", false));
  QUIRE_TRY(request.format, format_from(fields));
  QUIRE_TRY(request.speculation, speculation_from(fields));
  QUIRE_TRY(const std::int64_t priority, fields.integer("priority", 0, -1000, 1000));
  QUIRE_TRY(request.cache_policy, fields.string("cache_policy", "", 64));
  QUIRE_TRY(request.salt, salt_from(fields, caller));
  QUIRE_TRY(const double keep_s, fields.number("cache_ttl", 0, 0, 7 * 86400));
  request.priority = static_cast<int>(priority);
  request.keep = std::chrono::milliseconds(static_cast<std::int64_t>(keep_s * 1e3));
  return request;
}

namespace {

Api<StreamOptions> stream_options_from(const Fields& fields) {
  StreamOptions options;
  QUIRE_TRY(options.streamed, fields.boolean("stream", false));
  QUIRE_TRY(const auto more, fields.object("stream_options"));
  if (!more) return options;
  if (!options.streamed) return bad_field("stream_options", "given without 'stream': true");
  QUIRE_TRY(options.usage, more->boolean("include_usage", false));
  return options;
}

}  // namespace

Api<std::string> salt_from(const Fields& fields, const Caller& caller) {
  QUIRE_TRY(const std::string salt, fields.string("cache_salt", "", 256));
  // The tenant comes first and has a fixed length.
  return caller.tenant.empty() && salt.empty() ? "" : caller.tenant + ":" + salt;
}

Api<Asked> asked_from(const Fields& fields, const Caller& caller) {
  QUIRE_TRY(Request request, request_from(fields, caller));
  QUIRE_TRY(const StreamOptions streaming, stream_options_from(fields));
  QUIRE_TRY(const bool progress, fields.boolean("return_progress", false));
  request.report_progress = progress && streaming.streamed;
  return Asked{std::move(request), streaming};
}

Api<std::vector<std::vector<TokenId>>> prompts_from(const Fields& fields, std::string_view name, const Model& model) {
  const std::string path = fields.path_of(name);
  const Json* value = fields.find(name);
  if (value == nullptr) return bad_field(path, "is missing");
  std::vector<std::vector<TokenId>> prompts;
  const auto add_text = [&](const Json& text) { prompts.push_back(model.tokenize(text.get<std::string>())); };
  if (value->is_string()) {
    add_text(*value);
  } else if (!value->is_array() || value->empty()) {
    return bad_field(path, "{}; expected a string, token ids, or a list of either",
                     value->is_array() ? "an empty list" : kind_of(*value));
  } else if (value->front().is_number()) {
    QUIRE_TRY(auto tokens, tokens_from(*value, path, model));
    prompts.push_back(std::move(tokens));
  } else {
    if (value->size() > kMostPrompts)
      return bad_field(path, "{} prompts; expected at most {}", value->size(), kMostPrompts);
    for (const Json& item : *value) {
      if (item.is_string()) {
        add_text(item);
      } else if (item.is_array()) {
        QUIRE_TRY(auto tokens, tokens_from(item, path, model));
        prompts.push_back(std::move(tokens));
      } else {
        return bad_field(path, "holds {}; expected strings or lists of token ids", kind_of(item));
      }
    }
  }
  for (auto& prompt : prompts) {
    if (prompt.empty()) return bad_field(path, "is empty; expected at least one token");
  }
  return prompts;
}

Api<std::string> model_name_from(const Fields& fields) { return fields.string("model", "", 256); }

}  // namespace quire::server
