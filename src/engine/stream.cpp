#include <utility>

#include "core/fail.h"
#include "engine/stream_state.h"

namespace quire {

bool Stream::State::has_room() const {
  const std::scoped_lock lock(mutex);
  return events.size() < capacity;
}

void Stream::State::push(StreamEvent event) {
  std::function<void()> tell;
  {
    const std::scoped_lock lock(mutex);
    events.push_back(std::move(event));
    tell = ready;
  }
  changed.notify_one();
  if (tell) tell();
}

void Stream::State::finish(Result<RequestReport> with) {
  std::function<void()> tell;
  {
    const std::scoped_lock lock(mutex);
    report = std::move(with);
    tell = ready;
    wake = nullptr;
  }
  changed.notify_all();
  if (tell) tell();
}

std::optional<StreamEvent> Stream::State::pop(bool wait) {
  std::unique_lock lock(mutex);
  if (wait) changed.wait(lock, [this] { return !events.empty() || report.has_value(); });
  if (events.empty()) return std::nullopt;
  const bool was_full = events.size() >= capacity;
  StreamEvent event = std::move(events.front());
  events.pop_front();
  // Woken under the lock: finish() takes `wake` away before the engine goes.
  if (was_full && events.size() < capacity && wake) wake();
  return event;
}

void Stream::State::cancel() {
  cancelled = true;
  const std::scoped_lock lock(mutex);
  if (wake) wake();
}

Stream::Stream(std::shared_ptr<State> state) : state_(std::move(state)) {}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&& other) noexcept {
  if (state_ != nullptr) state_->cancel();
  state_ = std::move(other.state_);
  return *this;
}
Stream::~Stream() {
  if (state_ != nullptr) state_->cancel();
}

std::optional<StreamEvent> Stream::next() { return state_->pop(true); }
std::optional<StreamEvent> Stream::try_next() { return state_->pop(false); }

bool Stream::ended() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->report.has_value() && state_->events.empty();
}

void Stream::notify(const std::function<void()>& ready) {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->ready = ready;
  }
  ready();  // for what came before
}

void Stream::cancel() { state_->cancel(); }

Result<RequestReport> Stream::report() const {
  const std::scoped_lock lock(state_->mutex);
  if (!state_->report) return fail(Errc::invalid_argument, "the request is still running; read its stream to the end");
  return *state_->report;
}

Result<Completion> Stream::wait() {
  Completion completion;
  while (auto event = next()) {
    if (event->of_prompt) {
      completion.prompt.push_back(*event->chosen);
      continue;
    }
    if (event->progress) continue;
    if (!event->embedding.empty()) {
      completion.embedding = std::move(event->embedding);
      continue;
    }
    const auto choice = static_cast<std::size_t>(event->choice);
    if (completion.choices.size() <= choice) completion.choices.resize(choice + 1);
    Completion::Choice& to = completion.choices[choice];
    if (event->token) to.tokens.push_back(*event->token);
    to.text += event->text;
    if (event->end) to.stop = *event->end;
  }
  QUIRE_TRY(completion.report, report());
  return completion;
}

}  // namespace quire
