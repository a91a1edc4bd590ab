// One client's connection: requests are read, answered and logged one after the other.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>

#include "server/client_stream.h"
#include "server/server_state.h"

namespace quire::server {

class HttpExchange;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, Server::State& server);
  ~Connection();

  void start();
  void refuse();  // the server has too many

 private:
  friend class HttpExchange;
  using Code = boost::beast::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void shake_hands();
  void refuse_handshake(const Code& code);
  void wait_for_request();
  void read_header();
  void on_header(const Code& code);
  void read_body();
  void on_body(const Code& code);
  void refuse_request(const Code& code);
  void finished(bool keep_alive);
  void watch();
  void end();    // as agreed
  void close();  // now

  Server::State& server_;
  ClientStream stream_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::weak_ptr<HttpExchange> exchange_;  // the one under way
  bool watching_ = false;
  void (Connection::*next_)() = nullptr;  // as soon as watching has stopped
};

}  // namespace quire::server
