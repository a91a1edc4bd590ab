// A client's bytes, plain or through TLS: the same to whoever reads and writes them.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <optional>
#include <utility>

namespace quire::server {

class ClientStream {
 public:
  using executor_type = boost::beast::tcp_stream::executor_type;
  using Code = boost::beast::error_code;

  // tls: null for plain bytes.
  ClientStream(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context* tls) : tcp_(std::move(socket)) {
    if (tls != nullptr) tls_.emplace(tcp_, *tls);
  }
  ClientStream(const ClientStream&) = delete;
  ClientStream& operator=(const ClientStream&) = delete;

  bool is_tls() const { return tls_.has_value(); }
  // What TLS is carried by; timers and the socket are the same in both cases.
  boost::beast::tcp_stream& tcp() { return tcp_; }
  executor_type get_executor() { return tcp_.get_executor(); }
  template <class Duration>
  void expires_after(Duration time) {
    tcp_.expires_after(time);
  }
  void expires_never() { tcp_.expires_never(); }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) {
      tls_->async_read_some(buffers, std::forward<Handler>(handler));
    } else {
      tcp_.async_read_some(buffers, std::forward<Handler>(handler));
    }
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) {
      tls_->async_write_some(buffers, std::forward<Handler>(handler));
    } else {
      tcp_.async_write_some(buffers, std::forward<Handler>(handler));
    }
  }
  // Of TLS alone.
  template <class Handler>
  void async_handshake(Handler&& handler) {
    tls_->async_handshake(boost::asio::ssl::stream_base::server, std::forward<Handler>(handler));
  }
  template <class Handler>
  void async_goodbye(Handler&& handler) {
    tls_->async_shutdown(std::forward<Handler>(handler));
  }

 private:
  boost::beast::tcp_stream tcp_;
  std::optional<boost::asio::ssl::stream<boost::beast::tcp_stream&>> tls_;
};

}  // namespace quire::server
