// One client of a server that speaks OpenAI's chat API: asks, reads the streamed answer, asks again. Callbacks on one
// thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire::load {

using Clock = std::chrono::steady_clock;

struct Plan {
  boost::asio::ip::tcp::endpoint server;
  std::string host;  // as the Host header has it
  std::string path = "/v1/chat/completions";
  std::string before, after;          // of the body, around the number that makes each question another
  std::int64_t requests = 0;          // in all; 0: as many as there is time for
  Clock::time_point end;              // no request is begun after it
  std::chrono::seconds timeout{600};  // of one request
  int max_tokens = 0;                 // that every answer must have; 0: any number
  bool again = true;                  // closed loop: a client asks again when it was answered
};

// What all clients saw.
struct Tally {
  std::int64_t begun = 0, answered = 0, refused = 0, refused_without_retry_after = 0, open = 0, most_open = 0;
  std::int64_t tokens = 0;        // events with text that came before the end of the time
  std::int64_t tokens_later = 0;  // and those that came while the last answers were finished
  std::int64_t tokens_said = 0;   // by the server's own count, of all that were answered
  std::int64_t comments = 0;      // keep-alives: lines of a stream that say only that it lives
  std::map<int, std::int64_t> statuses;
  std::map<std::string, std::int64_t> errors;
  std::vector<float> first_token_ms, between_tokens_ms, whole_ms, refusal_ms;
  double longest_silence_ms = 0;  // between two pieces of a stream, comments among them
};

class Client : public std::enable_shared_from_this<Client> {
 public:
  Client(boost::asio::io_context& io, const Plan& plan, Tally& tally)
      : stream_(io), timer_(io), plan_(plan), tally_(tally) {}

  void ask();
  void abandon();  // what it is doing; counted neither as answered nor as an error

 private:
  using Code = boost::beast::error_code;
  using Parser = boost::beast::http::response_parser<boost::beast::http::string_body>;

  void connect();
  void send();
  void read_head();
  void on_head();
  void read_more();
  void on_piece();
  void on_line(std::string_view line);
  void on_token(Clock::time_point now);
  void on_end();
  void refused(int status, Clock::time_point now);
  void fail(const std::string& kind);
  void over();
  void rest(std::chrono::milliseconds pause);
  bool good(const Code& code, const char* doing);

  boost::beast::tcp_stream stream_;
  boost::asio::steady_timer timer_;
  const Plan& plan_;
  Tally& tally_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::string request_, text_;  // text_: of the stream, up to the end of its last whole line
  bool connected_ = false, reused_ = false, asking_ = false, abandoned_ = false, done_ = false;
  int tokens_ = 0;
  Clock::time_point started_, last_token_, last_piece_;
};

}  // namespace quire::load
