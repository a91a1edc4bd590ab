// The fields that the OpenAI-compatible APIs share, and those llama.cpp and Quire add to them.
#pragma once

#include <string>
#include <vector>

#include "quire/engine.h"
#include "server/fields.h"
#include "server/http.h"

namespace quire::server {

inline constexpr int kMostChoices = 64;
inline constexpr int kMostPrompts = 64;
inline constexpr int kMostTopLogprobs = 20;

struct StreamOptions {
  bool streamed = false;
  bool usage = false;
};

// Everything but the prompt, the number of choices and log-probabilities.
Api<Request> request_from(const Fields& fields, const Caller& caller);

struct Asked {
  Request request;
  StreamOptions streaming;
};
Api<Asked> asked_from(const Fields& fields, const Caller& caller);

// "stop" or "stop_sequences".
Api<std::vector<std::string>> stops_from(const Fields& fields, std::string_view name);

// "cache_salt", such that nobody can write another tenant's.
Api<std::string> salt_from(const Fields& fields, const Caller& caller);

// "prompt" or "input": a text, tokens, or a list of either.
Api<std::vector<std::vector<TokenId>>> prompts_from(const Fields& fields, std::string_view name, const Model& model);

// "model": its name; empty where there is none.
Api<std::string> model_name_from(const Fields& fields);

}  // namespace quire::server
