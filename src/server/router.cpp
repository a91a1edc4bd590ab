#include "server/router.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <charconv>

#include "server/api_error.h"

namespace quire::server {
namespace {

bool same_word(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

// "name", "name:port" or "[address]:port", without the port.
std::string_view without_port(std::string_view host) {
  if (!host.empty() && host.front() == '[') {
    const auto end = host.find(']');
    return end == std::string_view::npos ? host : host.substr(0, end + 1);
  }
  return host.substr(0, host.find(':'));
}

// %41 is A, + is a space; what is no such code stays as it is.
std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

// The host of "scheme://host:port".
std::string_view host_of(std::string_view origin) {
  const auto start = origin.find("://");
  return start == std::string_view::npos ? std::string_view() : origin.substr(start + 3);
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  const auto at = std::ranges::find_if(headers, [&](const auto& field) { return same_word(field.first, name); });
  return at == headers.end() ? std::string_view() : std::string_view(at->second);
}

std::string HttpRequest::parameter(std::string_view name) const {
  std::string_view rest = query;
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    if (pair.substr(0, pair.find('=')) == name) return decoded(pair.substr(std::min(name.size() + 1, pair.size())));
  }
  return "";
}

bool Router::knows_host(std::string_view host) const {
  if (hosts.empty()) return true;
  const std::string_view name = without_port(host);
  return std::ranges::any_of(hosts, [&](const std::string& known) { return same_word(known, name); });
}

void Router::answer(const ExchangePtr& exchange) const {
  HttpRequest& request = exchange->request;
  // A page elsewhere whose name was made to point here would have its own name in Host, or in Origin.
  const std::string_view host = request.header("Host"), origin = request.header("Origin");
  if (!host.empty() && !knows_host(host)) {
    return exchange->respond(
        to_response({403, "this server does not answer to that Host; see --allowed-host", "", "", 0}));
  }
  if (!origin.empty() && !same_word(host_of(origin), host)) {
    return exchange->respond(to_response({403, "requests from pages of other origins are refused", "", "", 0}));
  }
  auto caller = keys.caller(request);
  if (!caller) {
    return exchange->respond(to_response(
        {401, "an API key is needed: 'Authorization: Bearer KEY' or 'x-api-key: KEY'", "", "invalid_api_key", 0}));
  }
  exchange->caller = std::move(*caller);
  std::string allowed;
  for (const Route& route : routes_) {
    if (route.path != request.path) continue;
    if (route.method != request.method) {
      allowed += (allowed.empty() ? "" : ", ") + route.method;
      continue;
    }
    if (route.access == Access::admin && !exchange->caller.admin) {
      return exchange->respond(to_response({403, "this needs the admin key", "", "", 0}));
    }
    return route.handler(exchange);
  }
  if (allowed.empty()) {
    return exchange->respond(
        to_response({404, fmt::format("no such path: {}", request.path.substr(0, 200)), "", "", 0}));
  }
  HttpResponse response = to_response({405, fmt::format("{} takes {}", request.path, allowed), "", "", 0});
  response.headers.emplace_back("Allow", allowed);
  exchange->respond(std::move(response));
}

void Router::dispatch(const ExchangePtr& exchange) const {
  answer_safely(exchange, [&] { answer(exchange); });
}

void answer_safely(const ExchangePtr& exchange, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    exchange->respond(to_response({503, "out of memory", "", "", 1}));
  } catch (const std::exception&) {
    // What went wrong may quote the request; it belongs neither in an answer nor in a log.
    exchange->respond(to_response({500, "internal error", "", "", 0}));
  }
}

}  // namespace quire::server
