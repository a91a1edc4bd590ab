// What handlers see of HTTP: a request, and the exchange it belongs to.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire::server {

struct HttpRequest {
  std::string method;
  std::string path;   // without the query
  std::string query;  // what follows '?'
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::string id;  // the client's, where it sent a good one, else ours
  std::chrono::steady_clock::time_point received;

  std::string_view header(std::string_view name) const;  // case does not matter; empty where there is none
  std::string parameter(std::string_view name) const;    // of the query, decoded; empty where there is none
};

struct HttpResponse {
  unsigned status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
};

// Who asks, as far as keys tell.
struct Caller {
  std::string tenant;  // of the key; empty where none is needed
  bool admin = false;
  std::string owner = {};  // the key's name in files: the same from start to start, unlike the tenant
};

// One request on its way to its answer. Everything but `post` belongs to the connection's own thread of
// execution, in which handlers start and posted functions run.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  virtual ~Exchange() = default;
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  virtual void post(std::function<void()> work) = 0;  // from any thread

  // Either one response,
  virtual void respond(HttpResponse response) = 0;
  // or a stream of server-sent events, of which some may wait to be written.
  virtual void begin_events() = 0;
  virtual void send_event(std::string_view data) = 0;
  virtual bool has_room() const = 0;
  virtual void end_events() = 0;

  HttpRequest request;
  Caller caller;
  // Counts for the log, which never holds what was asked or answered.
  long long prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  std::function<void()> on_room;  // some of what waited was written
  std::function<void()> on_gone;  // the client went away; nothing can be sent any more
};

using ExchangePtr = std::shared_ptr<Exchange>;

}  // namespace quire::server
