// What a client is told when a request cannot be answered, in OpenAI's shape.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "quire/result.h"
#include "server/http.h"

namespace quire::server {

using Json = nlohmann::ordered_json;

// What is not UTF-8 is replaced: an answer is always JSON.
std::string written(const Json& document);

struct ApiError {
  unsigned status = 400;
  std::string message;
  std::string param;  // the field at fault; empty: none
  std::string code;   // such as model_not_found; empty: none
  int retry_after_s = 0;
};

template <class T>
using Api = Result<T, ApiError>;

ApiError to_api_error(const Error& error, const std::string& param = "");

std::string error_type(const ApiError& error);
std::string to_json(const ApiError& error);
HttpResponse to_response(const ApiError& error);

}  // namespace quire::server
