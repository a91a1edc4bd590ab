// An answer as the server collects it, and the parts of it that several APIs spell alike.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quire/engine.h"
#include "server/fields.h"

namespace quire::server {

struct AnswerToken {
  TokenId token;
  std::string text;
  std::optional<TokenProbability> chosen;
  std::vector<TokenProbability> alternatives;
};

struct AnswerChoice {
  std::string text;
  std::vector<AnswerToken> tokens;  // where log-probabilities were asked for
  std::optional<StopReason> stop;
};

struct Answer {
  std::vector<AnswerChoice> choices;
  std::vector<AnswerToken> prompt;  // where it is scored
  std::vector<std::vector<float>> embeddings;
  RequestReport report;  // of several requests the sum
};

void add_report(RequestReport& total, const RequestReport& part);

const char* finish_reason(StopReason stop);  // "stop" or "length"
const char* spelled_miss(MissReason reason);
Json usage_of(const RequestReport& report);
Json timings_of(const RequestReport& report);
Json progress_of(const PromptProgress& progress);
Json cache_of(const RequestReport& report);  // why no more of the prompt was found

// How a token reads by itself: half a character is a replacement character.
std::string spelled(const Model& model, TokenId token);
Json bytes_of(const Model& model, TokenId token);

}  // namespace quire::server
