// Listens, and holds any number of connections on a fixed number of threads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "quire/result.h"
#include "server/router.h"
#include "server/tls.h"

namespace quire::server {

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;                       // 0: any that is free
  std::shared_ptr<boost::asio::ssl::context> tls;  // null: plain HTTP
  int threads = 2;
  std::uint32_t header_bytes = 16 << 10;
  std::size_t header_fields = 100;
  std::uint64_t body_bytes = 8 << 20;
  std::size_t connections = 4096;  // more are told to come back
  std::chrono::seconds header_time{10};
  std::chrono::seconds body_time{30};
  std::chrono::seconds write_time{30};  // for a client that does not read
  std::chrono::seconds idle_time{75};   // between requests of one connection
  std::chrono::seconds drain_time{60};  // for answers that are under way when the server is told to stop
  std::function<void(const std::string& line)> log;
};

class Server {
 public:
  Server(Router router, ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  Result<void> listen();
  std::uint16_t port() const;  // after listen
  const Router& router() const;
  // Until SIGTERM or SIGINT, or stop. Then answers under way are finished and new requests refused; a second signal
  // ends them too.
  void run();
  void stop();

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace quire::server
