// Conversations as OpenAI's chat API spells them, and how any of them becomes a prompt.
#pragma once

#include <string>
#include <vector>

#include "quire/model.h"
#include "server/fields.h"
#include "server/tools.h"

namespace quire::server {

// A text, or a list of parts, of which only texts are known.
Api<std::string> text_from(const Fields& fields, std::string_view name);

// "messages": the conversation.
Api<std::vector<Message>> messages_from(const Fields& fields);

// As the model's template spells it.
Api<std::vector<TokenId>> chat_prompt_of(const std::vector<Message>& messages, const Tools& tools, const Model& model);
// "messages", with "tools" where there are some.
Api<std::vector<TokenId>> chat_prompt_from(const Fields& fields, const Model& model);

// A list of objects that must be there and not be empty: each is passed on with its path.
template <class Body>
Api<void> for_each_object(const Fields& fields, const std::string& name, Body&& body) {
  const Json* list = fields.find(name);
  const std::string path = fields.path_of(name);
  if (list == nullptr) return bad_field(path, "is missing");
  if (!list->is_array() || list->empty()) {
    return bad_field(path, "{}; expected a list with at least one object",
                     list->is_array() ? "an empty list" : kind_of(*list));
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string at = fmt::format("{}[{}]", path, i);
    if (!(*list)[i].is_object()) return bad_field(at, "{}; expected an object", kind_of((*list)[i]));
    if (Api<void> done = body(Fields((*list)[i], at)); !done.ok()) return done;
  }
  return {};
}

}  // namespace quire::server
