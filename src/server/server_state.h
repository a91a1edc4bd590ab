// What a server's connections share.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "server/server.h"

namespace quire::server {

struct Server::State {
  State(Router router_, ServerOptions options_)
      : router(std::move(router_)),
        options(std::move(options_)),
        io(options.threads),
        acceptor(io),
        signals(io),
        timer(io) {}

  void accept();
  void drain();
  void wait_for_answers();

  Router router;
  ServerOptions options;
  // Before `io`, whose end is that of the last connections, which count themselves out.
  std::atomic<bool> draining{false};
  std::atomic<std::int64_t> connections{0};
  std::atomic<std::int64_t> answering{0};  // requests that were read and not yet answered
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor acceptor;
  boost::asio::signal_set signals;
  boost::asio::steady_timer timer;
  std::chrono::steady_clock::time_point drain_until;
};

}  // namespace quire::server
