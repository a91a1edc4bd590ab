#include "server/connection.h"

#include <fmt/format.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>

#include "server/api_error.h"
#include "server/http_exchange.h"
#include "server/random_id.h"

namespace quire::server {
namespace {

namespace http = boost::beast::http;

// Into logs and headers it goes as it came, so only plain characters.
bool is_good_id(std::string_view id) {
  return !id.empty() && id.size() <= 64 && std::ranges::all_of(id, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
  });
}

HttpRequest to_request(http::request<http::string_body>&& message) {
  HttpRequest request;
  request.method = std::string(message.method_string());
  const std::string target(message.target());
  const auto question = target.find('?');
  request.path = target.substr(0, question);
  if (question != std::string::npos) request.query = target.substr(question + 1);
  for (const auto& field : message) {
    request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  request.body = std::move(message.body());
  request.received = std::chrono::steady_clock::now();
  const std::string_view sent = request.header("X-Request-Id");
  request.id = is_good_id(sent) ? std::string(sent) : random_id("req_");
  return request;
}

constexpr std::chrono::seconds kGoodbyeTime{2};

// All of an answer for whoever is cut off before there is an exchange.
std::string short_answer(const ApiError& error, std::string_view reason) {
  const std::string body = to_json(error);
  const std::string retry = error.retry_after_s > 0 ? fmt::format("Retry-After: {}\r\n", error.retry_after_s) : "";
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: application/json\r\n{}Connection: close\r\nContent-Length: {}\r\n\r\n{}",
      error.status, reason, retry, body.size(), body);
}

ApiError error_for(const boost::beast::error_code& code) {
  if (code == http::error::header_limit) return {431, "the request's header is too large", "", "", 0};
  if (code == http::error::body_limit) return {413, "the request's body is too large", "", "", 0};
  return {400, fmt::format("not a good HTTP request: {}", code.message()), "", "", 0};
}

}  // namespace

Connection::Connection(boost::asio::ip::tcp::socket socket, Server::State& server)
    : server_(server), stream_(std::move(socket), server.options.tls.get()) {
  ++server_.connections;
}
Connection::~Connection() { --server_.connections; }

void Connection::start() {
  boost::asio::dispatch(stream_.get_executor(), [self = shared_from_this()] {
    boost::beast::error_code ignored;
    self->stream_.tcp().socket().set_option(boost::asio::ip::tcp::no_delay(true), ignored);
    self->stream_.is_tls() ? self->shake_hands() : self->read_header();
  });
}

void Connection::refuse() {
  if (stream_.is_tls()) return close();  // shaking hands is most of the work
  static const std::string kAnswer = short_answer({503, "too many connections", "", "", 1}, "Service Unavailable");
  stream_.expires_after(std::chrono::seconds(1));
  boost::asio::async_write(stream_, boost::asio::buffer(kAnswer),
                           [self = shared_from_this()](const Code&, std::size_t) { self->close(); });
}

void Connection::shake_hands() {
  stream_.expires_after(server_.options.header_time);
  stream_.async_handshake([self = shared_from_this()](const Code& code) {
    code.failed() ? self->refuse_handshake(code) : self->read_header();
  });
}

// Who speaks plain HTTP here is told so, plainly.
void Connection::refuse_handshake(const Code& code) {
  const bool is_http = code.category() == boost::asio::error::get_ssl_category() &&
                       ERR_GET_REASON(static_cast<unsigned long>(code.value())) == SSL_R_HTTP_REQUEST;
  if (!is_http) return close();
  static const std::string kAnswer =
      short_answer({400, "this port speaks TLS: use https://", "", "", 0}, "Bad Request");
  boost::asio::async_write(stream_.tcp(), boost::asio::buffer(kAnswer),
                           [self = shared_from_this()](const Code&, std::size_t) { self->close(); });
}

// A connection may rest between requests; once the first byte is there, the header must follow in time.
void Connection::wait_for_request() {
  if (buffer_.size() > 0) return read_header();
  stream_.expires_after(server_.options.idle_time);
  stream_.async_read_some(buffer_.prepare(4096), [self = shared_from_this()](const Code& code, std::size_t bytes) {
    if (code.failed()) return self->close();
    self->buffer_.commit(bytes);
    self->read_header();
  });
}

void Connection::read_header() {
  parser_.emplace();
  parser_->header_limit(server_.options.header_bytes);
  parser_->body_limit(server_.options.body_bytes);
  stream_.expires_after(server_.options.header_time);
  http::async_read_header(stream_, buffer_, *parser_,
                          [self = shared_from_this()](const Code& code, std::size_t) { self->on_header(code); });
}

void Connection::on_header(const Code& code) {
  if (code.failed()) return refuse_request(code);
  const auto& fields = parser_->get();
  if (static_cast<std::size_t>(std::distance(fields.begin(), fields.end())) > server_.options.header_fields) {
    return refuse_request(http::error::header_limit);
  }
  if (!boost::beast::iequals(fields[http::field::expect], "100-continue")) return read_body();
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  boost::asio::async_write(stream_, boost::asio::buffer(kContinue),
                           [self = shared_from_this()](const Code& failed, std::size_t) {
                             failed.failed() ? self->close() : self->read_body();
                           });
}

void Connection::read_body() {
  stream_.expires_after(server_.options.body_time);
  http::async_read(stream_, buffer_, *parser_,
                   [self = shared_from_this()](const Code& code, std::size_t) { self->on_body(code); });
}

void Connection::on_body(const Code& code) {
  if (code.failed()) return refuse_request(code);
  const bool keep_alive = parser_->get().keep_alive(), chunked = parser_->get().version() >= 11;
  auto exchange =
      std::make_shared<HttpExchange>(shared_from_this(), to_request(parser_->release()), keep_alive, chunked);
  exchange_ = exchange;
  stream_.expires_never();
  if (server_.draining) return exchange->respond(to_response({503, "the server is stopping", "", "", 1}));
  watch();
  server_.router.dispatch(exchange);
}

void Connection::refuse_request(const Code& code) {
  // Clients that hang up or fall silent get no answer; those that send nonsense do, and are then cut off.
  if (code == http::error::end_of_stream || code == http::error::partial_message ||
      code.category() != make_error_code(http::error::end_of_stream).category()) {
    return close();
  }
  HttpRequest nothing;
  nothing.method = "-";
  nothing.path = "-";
  nothing.id = random_id("req_");
  nothing.received = std::chrono::steady_clock::now();
  auto exchange = std::make_shared<HttpExchange>(shared_from_this(), std::move(nothing), false, true);
  exchange_ = exchange;
  exchange->respond(to_response(error_for(code)));
}

void Connection::finished(bool keep_alive) {
  exchange_.reset();
  const auto next = !keep_alive || server_.draining ? &Connection::end : &Connection::wait_for_request;
  if (!watching_) return (this->*next)();
  next_ = next;
  stream_.tcp().cancel();
}

// While an answer is made, the only news from the client is that it left, or the next request it sends early.
void Connection::watch() {
  constexpr std::size_t kLittle = 512;
  watching_ = true;
  stream_.async_read_some(buffer_.prepare(kLittle), [self = shared_from_this()](const Code& code, std::size_t bytes) {
    self->watching_ = false;
    self->buffer_.commit(bytes);
    if (const auto next = std::exchange(self->next_, nullptr)) return (self.get()->*next)();
    const auto exchange = self->exchange_.lock();
    if (code.failed() && exchange != nullptr) exchange->gone();
  });
}

void Connection::end() {
  if (!stream_.is_tls()) return close();
  stream_.expires_after(kGoodbyeTime);
  stream_.async_goodbye([self = shared_from_this()](const Code&) { self->close(); });
}

void Connection::close() {
  boost::beast::error_code ignored;
  stream_.tcp().socket().shutdown(boost::asio::ip::tcp::socket::shutdown_both, ignored);
  stream_.tcp().close();
}

}  // namespace quire::server
