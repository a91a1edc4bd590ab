// The routes, each file its own.
#pragma once

#include <functional>

#include "server/answer.h"
#include "server/metrics.h"
#include "server/models.h"
#include "server/router.h"

namespace quire::server {

class SavedFiles;

struct Serving {
  Models& models;
  Metrics& metrics;
};

void add_completions(Router& router, Serving context);  // /v1/completions
void add_chat(Router& router, Serving context);         // /v1/chat/completions
void add_responses(Router& router, Serving context);    // /v1/responses
void add_messages(Router& router, Serving context);     // /v1/messages, as Anthropic's clients ask
void add_embeddings(Router& router, Serving context);   // /v1/embeddings
void add_text_routes(Router& router, Serving context);  // /tokenize, /detokenize, /apply-template
void add_status(Router& router, Serving context);       // /health, /v1/models, /props, /metrics
void add_cache(Router& router, Serving context);        // /v1/cache, /v1/cache/lookup, /v1/cache/pin, /v1/cache/unpin
void add_saving(Router& router, Serving context, SavedFiles& files);  // /v1/cache/save, /v1/cache/restore
void add_page(Router& router);                                        // the web page

// A handler that reads the body's JSON, waits until the model it names is loaded, and goes on with both.
using ModelHandler = std::function<Api<void>(const ExchangePtr&, const Fields&, const ServedPtr&, const Serving&)>;
using Refusal = HttpResponse (*)(const ApiError&);
Handler with_model(const Serving& serving, ModelHandler body, Refusal refuse = to_response);

// Runs a body that parses and starts; what it refuses becomes the response.
template <class Body>
void answer_or_refuse(const ExchangePtr& exchange, Body&& body) {
  if (auto done = body(); !done.ok()) exchange->respond(to_response(done.error()));
}

std::int64_t unix_seconds();
void respond_json(Exchange& exchange, const Json& document);

}  // namespace quire::server
