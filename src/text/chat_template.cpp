#include "text/chat_template.h"

#include <limits>

#include "core/fail.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"

namespace quire {
namespace {

using jinja::Value;

Error labelled(Error error) {
  error.message = "[chat template] " + error.message;
  return error;
}

Result<Value> from_json(const Json& json, int depth, jinja::Budget& budget) {
  if (depth > jinja::kMaxValueDepth / 2) return fail(Errc::invalid_argument, "the messages are nested too deeply");
  switch (json.type()) {
    case Json::value_t::boolean:
      return jinja::boolean(json.get<bool>());
    case Json::value_t::number_integer:
      return jinja::integer(json.get<std::int64_t>());
    case Json::value_t::number_unsigned: {
      const auto u = json.get<std::uint64_t>();
      if (u > std::numeric_limits<std::int64_t>::max()) return jinja::real(static_cast<double>(u));
      return jinja::integer(static_cast<std::int64_t>(u));
    }
    case Json::value_t::number_float:
      return jinja::real(json.get<double>());
    case Json::value_t::string:
      return jinja::text(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& element : json) {
        QUIRE_TRY(Value item, from_json(element, depth + 1, budget));
        items.push_back(std::move(item));
      }
      return jinja::list(std::move(items), budget);
    }
    case Json::value_t::object: {
      std::vector<std::pair<Value, Value>> entries;
      entries.reserve(json.size());
      for (const auto& [key, element] : json.items()) {
        QUIRE_TRY(Value value, from_json(element, depth + 1, budget));
        entries.emplace_back(jinja::text(key), std::move(value));
      }
      return jinja::dict(std::move(entries), budget);
    }
    case Json::value_t::null:
    case Json::value_t::binary:
    case Json::value_t::discarded:
      break;
  }
  return jinja::none();
}

}  // namespace

struct ChatTemplate::Program {
  jinja::Block body;
};

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  Result<jinja::Block> body = jinja::parse_template(source);
  if (!body.ok()) return labelled(std::move(body).error());
  return ChatTemplate(std::make_shared<const Program>(Program{std::move(body).value()}));
}

Result<std::string> ChatTemplate::render(const Json& context, const RenderLimits& limits) const {
  if (!context.is_object()) return labelled(fail(Errc::invalid_argument, "the context is not an object"));
  // The messages are the caller's, so turning them into values is not charged to the template.
  jinja::Budget unlimited(std::numeric_limits<std::size_t>::max(), std::numeric_limits<std::size_t>::max());
  Result<Value> variables = from_json(context, 0, unlimited);
  if (!variables.ok()) return labelled(std::move(variables).error());
  jinja::Budget budget(limits.steps, limits.output_bytes);
  jinja::Interpreter interpreter(*variables->dict(), limits.depth, budget);
  Result<std::string> rendered = interpreter.render(program_->body);
  if (!rendered.ok()) return labelled(std::move(rendered).error());
  return rendered;
}

}  // namespace quire
