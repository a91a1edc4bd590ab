// What OpenAI's clients ask of the Responses API.
#pragma once

#include <vector>

#include "quire/engine.h"
#include "server/fields.h"

namespace quire::server {

// "instructions" and "input": a text, or a list of messages, calls and what they gave.
Api<std::vector<Message>> input_from(const Fields& fields);

// "text.format"
Api<OutputFormat> text_format_from(const Fields& fields);

// Refuses what only a server that keeps responses can do, and what this one cannot.
Api<void> check_is_stateless(const Fields& fields);

}  // namespace quire::server
