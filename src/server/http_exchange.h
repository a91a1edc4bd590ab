// An exchange on a connection: what is written, and in which order.
#pragma once

#include "server/connection.h"
#include "server/http.h"

namespace quire::server {

class HttpExchange : public Exchange {
 public:
  HttpExchange(std::shared_ptr<Connection> connection, HttpRequest asked, bool keep_alive, bool chunked);
  ~HttpExchange() override;

  void post(std::function<void()> work) override;
  void respond(HttpResponse response) override;
  void begin_events() override;
  void send_event(std::string_view data) override;
  bool has_room() const override;
  void end_events() override;

  void gone();  // the client went away

 private:
  enum class Stage { waiting, streaming, ending, over };

  std::shared_ptr<HttpExchange> self() { return std::static_pointer_cast<HttpExchange>(shared_from_this()); }
  std::string head(unsigned status, const std::string& content_type, const std::string& extra) const;
  void add_chunk(std::string_view bytes);
  void flush();
  void on_written(bool failed);
  void over(unsigned status);
  void keep_alive_soon();

  std::shared_ptr<Connection> connection_;
  bool keep_alive_;
  bool chunked_;  // HTTP/1.0 does not know chunks: there the end of the connection ends the answer
  Stage stage_ = Stage::waiting;
  unsigned status_ = 200;
  std::string outbox_, in_flight_;
  bool writing_ = false;
  boost::asio::steady_timer quiet_;  // since something was last sent
};

}  // namespace quire::server
