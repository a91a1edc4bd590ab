// POST /v1/completions: a text goes on.
#include "server/api.h"
#include "server/generation.h"
#include "server/random_id.h"
#include "server/request_fields.h"

namespace quire::server {
namespace {

struct Shape {
  std::string id, model_name;
  std::int64_t created;
  const Model* model;
  int choices = 1;  // of each prompt
  bool usage = false;
  int top_logprobs = -1;
  std::vector<std::string> echoes;  // each prompt's text, where it is to be repeated
};

// OpenAI's older form of log-probabilities: parallel lists.
class LogprobLists {
 public:
  explicit LogprobLists(const Model& model) : model_(model) {}

  void add(const AnswerToken& token) {
    tokens_.push_back(spelled(model_, token.token));
    values_.push_back(token.chosen ? Json(token.chosen->log_probability) : Json());
    Json top = Json::object();
    for (const TokenProbability& other : token.alternatives) top[spelled(model_, other.token)] = other.log_probability;
    tops_.push_back(token.chosen ? top : Json());
    offsets_.push_back(offset_);
    offset_ += static_cast<std::int64_t>(token.text.size());
  }
  Json json() const {
    return {{"tokens", tokens_}, {"token_logprobs", values_}, {"top_logprobs", tops_}, {"text_offset", offsets_}};
  }

 private:
  const Model& model_;
  Json tokens_ = Json::array(), values_ = Json::array(), tops_ = Json::array(), offsets_ = Json::array();
  std::int64_t offset_ = 0;
};

class CompletionSpelling : public Spelling {
 public:
  explicit CompletionSpelling(Shape shape) : shape_(std::move(shape)) {}

  void open(Exchange& to) override {
    for (std::size_t prompt = 0; prompt < shape_.echoes.size(); ++prompt) {
      for (int c = 0; c < shape_.choices; ++c) {
        send(to, choice(static_cast<int>(prompt) * shape_.choices + c, shape_.echoes[prompt], Json(), Json()));
      }
    }
  }
  void progress(Exchange& to, int index, const PromptProgress& done) override {
    Json document = frame(Json::array({choice(index, "", Json(), Json())}));
    document["prompt_progress"] = progress_of(done);
    to.send_event("data: " + document.dump());
  }
  void token(Exchange& to, int index, const StreamEvent& event) override {
    Json logprobs;
    if (shape_.top_logprobs >= 0 && event.token) {
      LogprobLists lists(*shape_.model);
      lists.add({*event.token, event.text, event.chosen, event.alternatives});
      logprobs = lists.json();
    }
    if (event.text.empty() && !event.end && logprobs.is_null()) return;
    send(to, choice(index, event.text, logprobs, event.end ? Json(finish_reason(*event.end)) : Json()));
  }
  void close(Exchange& to, const Answer& answer) override {
    Json last = frame(Json::array());
    if (shape_.usage) last["usage"] = usage_of(answer.report);
    last["timings"] = timings_of(answer.report);
    last["cache"] = cache_of(answer.report);
    to.send_event("data: " + last.dump());
    to.send_event("data: [DONE]");
  }
  void fail(Exchange& to, const ApiError& error) override { to.send_event("data: " + to_json(error)); }

  Json whole(const Answer& answer) override {
    Json choices = Json::array();
    for (std::size_t i = 0; i < answer.choices.size(); ++i) {
      const AnswerChoice& c = answer.choices[i];
      const std::size_t prompt = i / static_cast<std::size_t>(shape_.choices);
      Json logprobs;
      if (shape_.top_logprobs >= 0) {
        LogprobLists lists(*shape_.model);
        for (const AnswerToken& token : answer.prompt) lists.add(token);
        for (const AnswerToken& token : c.tokens) lists.add(token);
        logprobs = lists.json();
      }
      const std::string echo = shape_.echoes.empty() ? "" : shape_.echoes[prompt];
      choices.push_back(choice(static_cast<int>(i), echo + c.text, logprobs,
                               Json(finish_reason(c.stop.value_or(StopReason::end_of_generation)))));
    }
    Json document = frame(std::move(choices));
    document["usage"] = usage_of(answer.report);
    document["timings"] = timings_of(answer.report);
    document["cache"] = cache_of(answer.report);
    return document;
  }

 private:
  static Json choice(int index, const std::string& text, Json logprobs, Json finish) {
    return {{"index", index}, {"text", text}, {"logprobs", std::move(logprobs)}, {"finish_reason", std::move(finish)}};
  }
  Json frame(Json choices) const {
    return {{"id", shape_.id},
            {"object", "text_completion"},
            {"created", shape_.created},
            {"model", shape_.model_name},
            {"choices", std::move(choices)}};
  }
  void send(Exchange& to, Json one) {
    Json document = frame(Json::array({std::move(one)}));
    if (shape_.usage) document["usage"] = nullptr;
    to.send_event("data: " + written(document));
  }

  Shape shape_;
};

Api<void> complete(const ExchangePtr& exchange, const Fields& fields, const ServedPtr& served, const Serving& serving) {
  QUIRE_TRY(Asked asked, asked_from(fields, exchange->caller));
  auto& [request, streaming] = asked;
  QUIRE_TRY(auto prompts, prompts_from(fields, "prompt", served->model()));
  QUIRE_TRY(const std::int64_t choices, fields.integer("n", 1, 1, kMostChoices));
  QUIRE_TRY(const std::int64_t best_of, fields.integer("best_of", choices, 1, kMostChoices));
  QUIRE_TRY(const std::int64_t logprobs, fields.integer("logprobs", -1, 0, kMostTopLogprobs));
  QUIRE_TRY(const bool echo, fields.boolean("echo", false));
  if (best_of != choices) return bad_field("best_of", "{}; expected the same as 'n': answers are not ranked", best_of);
  if (fields.has("suffix")) return bad_field("suffix", "is not supported");
  if (!fields.has("max_tokens") && !fields.has("n_predict") && !fields.has("max_completion_tokens")) {
    request.max_tokens = 16;  // OpenAI's default
  }
  if (echo && logprobs >= 0 && (prompts.size() > 1 || streaming.streamed)) {
    return bad_field("echo", "with log-probabilities takes one prompt and no stream");
  }
  Shape shape{random_id("cmpl-"),
              served->name,
              unix_seconds(),
              &served->model(),
              static_cast<int>(choices),
              streaming.usage,
              static_cast<int>(logprobs),
              {}};
  Generation::Plan plan;
  for (auto& prompt : prompts) {
    if (echo) shape.echoes.push_back(served->model().text(prompt));
    Request one = request;
    one.tokens = std::move(prompt);
    one.choices = static_cast<int>(choices);
    one.top_logprobs = static_cast<int>(logprobs);
    if (echo && logprobs >= 0) one.score_from = 0;
    plan.requests.push_back(std::move(one));
  }
  plan.streamed = streaming.streamed;
  plan.keep_tokens = logprobs >= 0;
  plan.spelling = std::make_unique<CompletionSpelling>(std::move(shape));
  Generation::start(exchange, served, std::move(plan), serving.metrics);
  return {};
}

}  // namespace

void add_completions(Router& router, Serving serving) {
  const Handler handler = with_model(serving, complete);
  router.add("POST", "/v1/completions", handler);
  router.add("POST", "/completions", handler);
}

}  // namespace quire::server
