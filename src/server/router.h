// Which handler answers which request, and who may ask it. Nothing is allowed that was not added here.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/http.h"
#include "server/keys.h"

namespace quire::server {

enum class Access { user, admin };

using Handler = std::function<void(const ExchangePtr&)>;

struct Route {
  std::string method;
  std::string path;
  Access access;
  Handler handler;
};

// Runs work that answers an exchange; whatever it throws becomes the answer.
void answer_safely(const ExchangePtr& exchange, const std::function<void()>& work);

class Router {
 public:
  void add(std::string method, std::string path, Handler handler, Access access = Access::user) {
    routes_.push_back({std::move(method), std::move(path), access, std::move(handler)});
  }
  const std::vector<Route>& routes() const { return routes_; }

  Keys keys;
  std::vector<std::string> hosts;  // names by which browsers may call this server, without port; empty: any

  // Answers, now or later.
  void dispatch(const ExchangePtr& exchange) const;

 private:
  void answer(const ExchangePtr& exchange) const;
  bool knows_host(std::string_view host) const;
  std::vector<Route> routes_;
};

}  // namespace quire::server
