// Carries what engines produce to a client: as events while it comes, or in one piece at the end.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "quire/engine.h"
#include "server/answer.h"
#include "server/http.h"
#include "server/models.h"

namespace quire::server {

class Metrics;

// How an API spells an answer. Functions that send do so on the exchange.
class Spelling {
 public:
  virtual ~Spelling() = default;
  virtual void open(Exchange&) {}
  virtual void progress(Exchange&, int /*choice*/, const PromptProgress&) {}
  virtual void token(Exchange& to, int choice, const StreamEvent& event) = 0;
  virtual void close(Exchange& to, const Answer& answer) = 0;
  virtual void fail(Exchange& to, const ApiError& error) = 0;
  virtual Json whole(const Answer& answer) = 0;
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  struct Plan {
    std::vector<Request> requests;  // each with its choices, which count on through all of them
    std::unique_ptr<Spelling> spelling;
    bool streamed = false;
    bool keep_tokens = false;  // of answers that are not streamed, for log-probabilities
    std::string schema_field;  // where the client wrote the schema that constrains the answer
  };
  static void start(const ExchangePtr& exchange, const ServedPtr& served, Plan plan, Metrics& metrics);

 private:
  struct Part {
    Stream stream;
    int first_choice;
  };

  Generation(ExchangePtr exchange, ServedPtr served, std::unique_ptr<Spelling> spelling, bool streamed,
             bool keep_tokens, Metrics& metrics)
      : exchange_(std::move(exchange)),
        served_(std::move(served)),
        spelling_(std::move(spelling)),
        streamed_(streamed),
        keep_tokens_(keep_tokens),
        metrics_(metrics) {}
  void wake();  // from any thread
  void pump();
  void take(std::size_t part, StreamEvent event);
  void finish();

  ExchangePtr exchange_;
  ServedPtr served_;  // before what looks things up in it
  std::unique_ptr<Spelling> spelling_;
  const bool streamed_, keep_tokens_;
  Metrics& metrics_;
  std::vector<Part> parts_;
  Answer answer_;
  std::atomic<bool> woken_{false};
};

}  // namespace quire::server
