#include "server/api_error.h"

namespace quire::server {

std::string written(const Json& document) { return document.dump(-1, ' ', false, Json::error_handler_t::replace); }

ApiError to_api_error(const Error& error, const std::string& param) {
  ApiError told{400, error.message, param, "", 0};
  switch (error.code) {
    case Errc::invalid_argument:
    case Errc::unsupported:
      break;
    case Errc::context_full:
    case Errc::out_of_memory:
      told.code = "context_length_exceeded";
      break;
    case Errc::not_found:
      told.status = 404;
      break;
    case Errc::busy:
      told.status = 429;
      told.code = "overloaded";
      told.retry_after_s = 1;
      break;
    case Errc::cancelled:
      told.status = 503;
      told.retry_after_s = 1;
      break;
    case Errc::bad_file:
    case Errc::io:
      told.status = 500;
      break;
  }
  return told;
}

std::string error_type(const ApiError& error) {
  if (error.status == 401) return "authentication_error";
  if (error.status == 403) return "permission_error";
  if (error.status == 404) return "not_found_error";
  if (error.status == 429) return "rate_limit_error";
  if (error.status == 503) return "unavailable_error";
  return error.status >= 500 ? "server_error" : "invalid_request_error";
}

std::string to_json(const ApiError& error) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  const Json document{{"error",
                       {{"message", error.message},
                        {"type", error_type(error)},
                        {"param", or_null(error.param)},
                        {"code", or_null(error.code)}}}};
  return written(document);
}

HttpResponse to_response(const ApiError& error) {
  HttpResponse response{error.status, to_json(error), "application/json", {}};
  if (error.retry_after_s > 0) response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
  if (error.status == 401)
    response.headers.emplace_back("WWW-Authenticate", "Basic realm=\"quire\", charset=\"UTF-8\"");
  return response;
}

}  // namespace quire::server
