#include "server/http_exchange.h"

#include <fmt/format.h>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/status.hpp>

#include "core/clock.h"
#include "quire/version.h"

namespace quire::server {
namespace {

constexpr std::size_t kMostWaiting = 64 << 10;
// Proxies and clients give up on a connection that says nothing for long, as when a request waits in line.
constexpr std::chrono::seconds kQuietTime{15};
constexpr unsigned kClientGone = 499;  // as others write it into their logs

}  // namespace

HttpExchange::HttpExchange(std::shared_ptr<Connection> connection, HttpRequest asked, bool keep_alive, bool chunked)
    : connection_(std::move(connection)),
      keep_alive_(keep_alive),
      chunked_(chunked),
      quiet_(connection_->stream_.get_executor()) {
  request = std::move(asked);
  ++connection_->server_.answering;
}

HttpExchange::~HttpExchange() {
  --connection_->server_.answering;
  if (stage_ == Stage::over) return;
  // A handler let it go without an answer: the client must not wait for ever.
  boost::asio::post(connection_->stream_.get_executor(), [connection = connection_] { connection->close(); });
}

void HttpExchange::post(std::function<void()> work) {
  boost::asio::post(connection_->stream_.get_executor(), [keep = self(), work = std::move(work)] { work(); });
}

std::string HttpExchange::head(unsigned status, const std::string& content_type, const std::string& extra) const {
  const auto reason = boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(status));
  return fmt::format("HTTP/1.1 {} {}\r\nServer: quire/" QUIRE_VERSION
                     "\r\nX-Request-Id: {}\r\nContent-Type: {}\r\nX-Content-Type-Options: nosniff\r\n{}{}\r\n",
                     status, std::string_view(reason.data(), reason.size()), request.id, content_type,
                     keep_alive_ ? "" : "Connection: close\r\n", extra);
}

void HttpExchange::respond(HttpResponse response) {
  if (stage_ != Stage::waiting) return;
  if (connection_->server_.draining) keep_alive_ = false;
  status_ = response.status;
  std::string extra = fmt::format("Content-Length: {}\r\n", response.body.size());
  for (const auto& [name, value] : response.headers) extra += fmt::format("{}: {}\r\n", name, value);
  outbox_ = head(response.status, response.content_type, extra);
  if (request.method != "HEAD") outbox_ += response.body;
  stage_ = Stage::ending;
  flush();
}

void HttpExchange::begin_events() {
  if (stage_ != Stage::waiting) return;
  if (!chunked_ || connection_->server_.draining) keep_alive_ = false;
  stage_ = Stage::streaming;
  outbox_ =
      head(200, "text/event-stream",
           chunked_ ? "Cache-Control: no-store\r\nTransfer-Encoding: chunked\r\n" : "Cache-Control: no-store\r\n");
  flush();
  keep_alive_soon();
}

void HttpExchange::keep_alive_soon() {
  quiet_.expires_after(kQuietTime);
  quiet_.async_wait([weak = weak_from_this()](const boost::beast::error_code& code) {
    const auto keep = std::static_pointer_cast<HttpExchange>(weak.lock());
    if (code.failed() || keep == nullptr || keep->stage_ != Stage::streaming) return;
    keep->send_event(": still here");  // a comment: clients read over it
  });
}

void HttpExchange::add_chunk(std::string_view bytes) {
  if (chunked_) outbox_ += fmt::format("{:x}\r\n", bytes.size());
  outbox_ += bytes;
  if (chunked_) outbox_ += "\r\n";
}

void HttpExchange::send_event(std::string_view data) {
  if (stage_ != Stage::streaming) return;
  add_chunk(fmt::format("{}\n\n", data));
  flush();
  keep_alive_soon();
}

bool HttpExchange::has_room() const { return outbox_.size() < kMostWaiting; }

void HttpExchange::end_events() {
  if (stage_ != Stage::streaming) return;
  if (chunked_) outbox_ += "0\r\n\r\n";
  stage_ = Stage::ending;
  flush();
}

void HttpExchange::flush() {
  if (writing_) return;
  writing_ = true;
  in_flight_.clear();
  in_flight_.swap(outbox_);
  connection_->stream_.expires_after(connection_->server_.options.write_time);
  boost::asio::async_write(
      connection_->stream_, boost::asio::buffer(in_flight_),
      [keep = self()](const Connection::Code& code, std::size_t) { keep->on_written(code.failed()); });
}

void HttpExchange::on_written(bool failed) {
  writing_ = false;
  if (stage_ == Stage::over) return;
  if (failed) return gone();
  if (!outbox_.empty()) {
    flush();
  } else if (stage_ == Stage::ending) {
    over(status_);
    return connection_->finished(keep_alive_);
  } else {
    connection_->stream_.expires_never();
  }
  if (has_room() && on_room) on_room();
}

void HttpExchange::gone() {
  if (stage_ == Stage::over) return;
  // A client may close as soon as it has read the end; whether it got there is known when the write is done.
  if (stage_ == Stage::ending && writing_) return;
  const auto told = std::move(on_gone);
  over(kClientGone);
  connection_->close();
  if (told) told();
}

void HttpExchange::over(unsigned status) {
  const auto keep = self();  // the functions below may hold the last reference
  stage_ = Stage::over;
  quiet_.cancel();
  on_room = nullptr;
  on_gone = nullptr;
  const auto& log = connection_->server_.options.log;
  if (!log) return;
  const double ms = milliseconds_since(request.received);
  log(fmt::format("{} {} {} {} {:.1f} ms, {} prompt ({} cached), {} generated", request.id, request.method,
                  request.path, status, ms, prompt_tokens, cached_tokens, generated_tokens));
}

}  // namespace quire::server
