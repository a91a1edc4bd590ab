#include "server/generation.h"

#include <algorithm>

#include "server/metrics.h"

namespace quire::server {

void Generation::start(const ExchangePtr& exchange, const ServedPtr& served, Plan plan, Metrics& metrics) {
  const std::shared_ptr<Generation> self(
      new Generation(exchange, served, std::move(plan.spelling), plan.streamed, plan.keep_tokens, metrics));
  int choices = 0;
  for (Request& request : plan.requests) {
    const int first = choices;
    choices += request.choices;
    auto stream = served->engine.submit(std::move(request));
    if (!stream.ok()) {
      const bool of_schema = stream.error().message.starts_with("schema ");
      return exchange->respond(to_response(to_api_error(stream.error(), of_schema ? plan.schema_field : "")));
    }
    self->parts_.push_back({std::move(*stream), first});
  }
  self->answer_.choices.resize(static_cast<std::size_t>(choices));
  self->answer_.embeddings.resize(self->parts_.size());
  // The exchange holds the generation, and it the exchange, until there is an answer or nobody to give it to.
  exchange->on_room = [self] { self->pump(); };
  exchange->on_gone = [self] {
    self->parts_.clear();
    ++self->metrics_.disconnected;
  };
  if (plan.streamed) {
    exchange->begin_events();
    self->spelling_->open(*exchange);
  }
  for (Part& part : self->parts_) {
    part.stream.notify([weak = std::weak_ptr(self)] {
      if (const auto generation = weak.lock()) generation->wake();
    });
  }
  self->pump();
}

void Generation::wake() {
  if (woken_.exchange(true)) return;
  exchange_->post([self = shared_from_this()] {
    self->woken_ = false;
    self->pump();
  });
}

void Generation::pump() {
  if (parts_.empty()) return;  // it is over
  bool any = true;
  while (any && exchange_->has_room()) {
    any = false;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (auto event = parts_[i].stream.try_next()) {
        any = true;
        take(i, std::move(*event));
      }
    }
  }
  if (std::ranges::all_of(parts_, [](const Part& part) { return part.stream.ended(); })) finish();
}

void Generation::take(std::size_t part, StreamEvent event) {
  if (!event.embedding.empty()) {
    answer_.embeddings[part] = std::move(event.embedding);
    return;
  }
  if (event.of_prompt) {
    answer_.prompt.push_back(
        {event.token.value_or(0), std::move(event.text), event.chosen, std::move(event.alternatives)});
    return;
  }
  const int choice = parts_[part].first_choice + event.choice;
  if (event.progress) {
    if (streamed_) spelling_->progress(*exchange_, choice, *event.progress);
    return;
  }
  AnswerChoice& to = answer_.choices[static_cast<std::size_t>(choice)];
  if (event.end) to.stop = event.end;
  if (streamed_) spelling_->token(*exchange_, choice, event);
  to.text += event.text;
  if (keep_tokens_ && event.token) {
    to.tokens.push_back({*event.token, std::move(event.text), event.chosen, std::move(event.alternatives)});
  }
}

void Generation::finish() {
  const auto keep = shared_from_this();
  std::optional<ApiError> failed;
  for (const Part& part : parts_) {
    auto report = part.stream.report();
    if (!report.ok()) {
      failed = to_api_error(report.error());
      continue;
    }
    metrics_.observe(served_->name, *report);
    add_report(answer_.report, *report);
  }
  parts_.clear();
  exchange_->prompt_tokens = answer_.report.prompt_tokens;
  exchange_->cached_tokens = answer_.report.cached_tokens;
  exchange_->generated_tokens = answer_.report.generated_tokens;
  if (!streamed_) {
    return exchange_->respond(failed ? to_response(*failed)
                                     : HttpResponse{200, written(spelling_->whole(answer_)), "application/json", {}});
  }
  failed ? spelling_->fail(*exchange_, *failed) : spelling_->close(*exchange_, answer_);
  exchange_->end_events();
}

}  // namespace quire::server
