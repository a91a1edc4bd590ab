// What the routes that look at the cache share.
#pragma once

#include "server/api.h"
#include "server/request_fields.h"

namespace quire::server {

// A prompt that is not to be answered: "messages" or "prompt".
Api<Asked> prompt_from(const Fields& fields, const Caller& caller, const Model& model);

}  // namespace quire::server
