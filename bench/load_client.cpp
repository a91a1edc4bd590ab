#include "load_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <charconv>

namespace quire::load {
namespace {

namespace http = boost::beast::http;

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

// The number behind a JSON key that occurs once; the rest of an event is not read as JSON, which would cost more than
// everything else the client does.
std::optional<std::int64_t> number_after(std::string_view line, std::string_view key) {
  const auto at = line.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(std::min(line.size(), line.find_first_not_of(": ", at + key.size())));
  std::int64_t number = 0;
  if (std::from_chars(rest.data(), rest.data() + rest.size(), number).ec != std::errc()) return std::nullopt;
  return number;
}

bool has_text(std::string_view line) {
  static constexpr std::string_view kKey = "\"content\":\"";
  const auto at = line.find(kKey);
  return at != std::string_view::npos && at + kKey.size() < line.size() && line[at + kKey.size()] != '"';
}

}  // namespace

void Client::ask() {
  if (abandoned_) return;
  const bool none_left = plan_.requests > 0 && tally_.begun >= plan_.requests;
  if (none_left || Clock::now() >= plan_.end) return connected_ ? stream_.close() : void();
  const std::string body = fmt::format("{}{}{}", plan_.before, tally_.begun++, plan_.after);
  request_ =
      fmt::format("POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}\r\n{}",
                  plan_.path, plan_.host, body.size(), plan_.again ? "" : "Connection: close\r\n", body);
  tokens_ = 0;
  done_ = false;
  text_.clear();
  asking_ = true;
  tally_.most_open = std::max(tally_.most_open, ++tally_.open);
  started_ = last_piece_ = Clock::now();
  stream_.expires_after(plan_.timeout);
  reused_ = connected_;
  connected_ ? send() : connect();
}

void Client::abandon() {
  abandoned_ = true;
  if (asking_) over();
  timer_.cancel();
  stream_.close();
}

bool Client::good(const Code& code, const char* doing) {
  if (abandoned_) return false;
  if (!code.failed()) return true;
  fail(code == boost::beast::error::timeout ? "timeout" : fmt::format("{}: {}", doing, code.message()));
  return false;
}

void Client::connect() {
  buffer_.clear();
  stream_.async_connect(plan_.server, [self = shared_from_this()](const Code& code) {
    if (!self->good(code, "connect")) return;
    self->connected_ = true;
    Code ignored;
    self->stream_.socket().set_option(boost::asio::ip::tcp::no_delay(true), ignored);
    self->send();
  });
}

void Client::send() {
  boost::asio::async_write(stream_, boost::asio::buffer(request_),
                           [self = shared_from_this()](const Code& code, std::size_t) {
                             // A server that refuses may answer and close before it has read everything.
                             if (code.failed() && code != boost::beast::error::timeout) return self->read_head();
                             if (self->good(code, "send")) self->read_head();
                           });
}

void Client::read_head() {
  parser_.emplace();
  parser_->body_limit(std::uint64_t{1} << 40);  // none at all is a limit of nothing in Boost 1.74
  parser_->eager(true);
  http::async_read_header(stream_, buffer_, *parser_, [self = shared_from_this()](const Code& code, std::size_t) {
    // Servers may close a connection between two requests without a word, as every client of theirs has to know.
    if (code == http::error::end_of_stream && self->reused_ && !self->abandoned_) {
      self->reused_ = false;
      self->stream_.close();
      return self->connect();
    }
    if (self->good(code, "read")) self->on_head();
  });
}

void Client::on_head() {
  ++tally_.statuses[static_cast<int>(parser_->get().result_int())];
  on_piece();
}

void Client::read_more() {
  http::async_read_some(stream_, buffer_, *parser_, [self = shared_from_this()](const Code& code, std::size_t) {
    if (self->good(code, "read")) self->on_piece();
  });
}

void Client::on_piece() {
  const auto now = Clock::now();
  tally_.longest_silence_ms = std::max(tally_.longest_silence_ms, ms_between(std::exchange(last_piece_, now), now));
  std::string& body = parser_->get().body();
  text_ += body;
  body.clear();
  const int status = static_cast<int>(parser_->get().result_int());
  if (status == 200) {
    std::size_t from = 0;
    for (auto end = text_.find('\n'); end != std::string::npos; end = text_.find('\n', from)) {
      on_line(std::string_view(text_).substr(from, end - from));
      from = end + 1;
    }
    text_.erase(0, from);
  }
  if (!parser_->is_done()) return read_more();
  if (status == 429 || status == 503) return refused(status, now);
  if (status != 200) return fail(fmt::format("status {}", status));
  on_end();
}

void Client::on_line(std::string_view line) {
  if (line.starts_with(":")) {
    ++tally_.comments;
  } else if (line.starts_with("data: [DONE]")) {
    done_ = true;
  } else if (line.starts_with("data: {\"error\"") || line.starts_with("error:")) {
    ++tally_.errors["an error within the stream"];
  } else if (has_text(line)) {
    on_token(last_piece_);
  } else if (const auto said = number_after(line, "\"completion_tokens\"")) {
    tally_.tokens_said += *said;
    if (plan_.max_tokens > 0 && *said != plan_.max_tokens) ++tally_.errors["an answer of another length"];
  }
}

void Client::on_token(Clock::time_point now) {
  ++(now <= plan_.end ? tally_.tokens : tally_.tokens_later);
  const bool first = tokens_++ == 0;
  // Answers that were begun within the time count, however late they end: waiting is not cut off.
  (first ? tally_.first_token_ms : tally_.between_tokens_ms)
      .push_back(static_cast<float>(ms_between(first ? started_ : last_token_, now)));
  last_token_ = now;
}

void Client::on_end() {
  if (!done_) return fail("a stream that breaks off");
  if (tokens_ == 0) return fail("an answer without text");
  ++tally_.answered;
  tally_.whole_ms.push_back(static_cast<float>(ms_between(started_, Clock::now())));
  over();
  if (!plan_.again) return stream_.close();
  if (!parser_->keep_alive()) {
    stream_.close();
    connected_ = false;
  }
  ask();
}

void Client::refused(int, Clock::time_point now) {
  ++tally_.refused;
  tally_.refusal_ms.push_back(static_cast<float>(ms_between(started_, now)));
  const auto& head = parser_->get();
  const std::string_view after(head[http::field::retry_after].data(), head[http::field::retry_after].size());
  int seconds = 0;
  const bool told =
      std::from_chars(after.data(), after.data() + after.size(), seconds).ec == std::errc() && seconds > 0;
  if (!told) ++tally_.refused_without_retry_after;
  over();
  if (!plan_.again || !parser_->keep_alive()) {
    stream_.close();
    connected_ = false;
  }
  rest(std::chrono::seconds(std::max(seconds, 1)));
}

void Client::fail(const std::string& kind) {
  ++tally_.errors[kind];
  over();
  stream_.close();
  connected_ = false;
  rest(std::chrono::milliseconds(100));
}

void Client::over() {
  asking_ = false;
  --tally_.open;
  stream_.expires_never();
}

void Client::rest(std::chrono::milliseconds pause) {
  if (!plan_.again) return;
  timer_.expires_after(pause);
  timer_.async_wait([self = shared_from_this()](const Code& code) {
    if (!code.failed()) self->ask();
  });
}

}  // namespace quire::load
