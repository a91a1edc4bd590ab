// What a request's stream and the engine's thread share: events on their way, and a wish to stop.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "quire/engine.h"

namespace quire {

struct Stream::State {
  // For the engine.
  explicit State(std::size_t capacity_, std::function<void()> wake_) : capacity(capacity_), wake(std::move(wake_)) {}
  bool has_room() const;
  void push(StreamEvent event);
  void finish(Result<RequestReport> with);  // nothing follows
  bool is_cancelled() const { return cancelled.load(std::memory_order_relaxed); }

  // For the reader.
  std::optional<StreamEvent> pop(bool wait);
  void cancel();

  const std::size_t capacity;  // soft: the events of one step always find room
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<StreamEvent> events;
  std::optional<Result<RequestReport>> report;  // once it is over
  std::function<void()> ready;
  std::function<void()> wake;  // the engine's thread; none once the engine is gone
  std::atomic<bool> cancelled{false};
};

}  // namespace quire
