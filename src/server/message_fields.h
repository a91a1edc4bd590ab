// What Anthropic's clients say of a conversation.
#pragma once

#include <chrono>
#include <vector>

#include "quire/model.h"
#include "server/fields.h"

namespace quire::server {

// "system" and "messages", whose content is text or a list of blocks.
Api<std::vector<Message>> anthropic_messages_from(const Fields& fields);

// The longest time for which "cache_control" anywhere asks that the prompt be kept; 0 where it does not.
Api<std::chrono::milliseconds> anthropic_term_from(const Fields& fields);

}  // namespace quire::server
