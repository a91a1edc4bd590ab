#include "server/server.h"

#include <sys/resource.h>

#include <boost/asio/strand.hpp>
#include <csignal>
#include <thread>
#include <vector>

#include "core/fail.h"
#include "server/connection.h"
#include "server/server_state.h"

namespace quire::server {

namespace net = boost::asio;
using tcp = net::ip::tcp;

namespace {

// A connection is a descriptor, and of those a process may have fewer at first than it is allowed.
void allow_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Server::Server(Router router, ServerOptions options)
    : state_(std::make_unique<State>(std::move(router), std::move(options))) {}

Server::~Server() = default;

const Router& Server::router() const { return state_->router; }

std::uint16_t Server::port() const { return state_->acceptor.local_endpoint().port(); }

Result<void> Server::listen() {
  allow_descriptors();
  boost::system::error_code code;
  const ServerOptions& options = state_->options;
  tcp::resolver resolver(state_->io);
  const auto found = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, code);
  if (code.failed() || found.empty()) {
    return fail(Errc::invalid_argument, "--host {}: {}; expected a name or an address of this machine", options.host,
                code.message());
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  tcp::acceptor& acceptor = state_->acceptor;
  acceptor.open(endpoint.protocol(), code);
  if (!code.failed()) acceptor.set_option(net::socket_base::reuse_address(true), code);
  if (!code.failed()) acceptor.bind(endpoint, code);
  if (!code.failed()) acceptor.listen(net::socket_base::max_listen_connections, code);
  if (code.failed()) {
    return fail(Errc::io, "cannot listen on {}:{}: {}; choose another with --port", options.host, options.port,
                code.message());
  }
  return {};
}

void Server::State::accept() {
  acceptor.async_accept(net::make_strand(io), [this](const boost::system::error_code& code, tcp::socket socket) {
    if (!acceptor.is_open()) return;
    if (code.failed()) {  // such as no more file descriptors: some will come back
      timer.expires_after(std::chrono::milliseconds(50));
      timer.async_wait([this](const boost::system::error_code&) {
        if (acceptor.is_open()) accept();
      });
      return;
    }
    const bool room = connections < static_cast<std::int64_t>(options.connections);
    auto connection = std::make_shared<Connection>(std::move(socket), *this);
    room ? connection->start() : connection->refuse();
    accept();
  });
}

void Server::State::drain() {
  if (draining.exchange(true)) return io.stop();
  boost::system::error_code ignored;
  acceptor.close(ignored);
  drain_until = std::chrono::steady_clock::now() + options.drain_time;
  wait_for_answers();
}

void Server::State::wait_for_answers() {
  if (answering == 0 || std::chrono::steady_clock::now() >= drain_until) return io.stop();
  timer.expires_after(std::chrono::milliseconds(20));
  timer.async_wait([this](const boost::system::error_code&) { wait_for_answers(); });
}

void Server::run() {
  State& state = *state_;
  boost::system::error_code ignored;
  state.signals.add(SIGINT, ignored);
  state.signals.add(SIGTERM, ignored);
  const std::function<void()> wait = [&] {
    state.signals.async_wait([&](const boost::system::error_code& code, int) {
      if (code.failed()) return;
      state.drain();
      wait();
    });
  };
  wait();
  state.accept();
  std::vector<std::thread> threads;
  for (int i = 1; i < state.options.threads; ++i) threads.emplace_back([&state] { state.io.run(); });
  state.io.run();
  for (std::thread& thread : threads) thread.join();
}

void Server::stop() {
  boost::asio::post(state_->io, [this] { state_->drain(); });
}

}  // namespace quire::server
