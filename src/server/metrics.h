// What is counted, for Prometheus. Counters and gauges are read from the engines when somebody looks; times of
// finished requests are added up here.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "quire/engine.h"
#include "server/models.h"

namespace quire::server {

class Metrics {
 public:
  explicit Metrics(const Models& models);  // all that will be served
  ~Metrics();

  void observe(const std::string& model, const RequestReport& report);
  std::string text() const;

  std::atomic<std::uint64_t> disconnected{0};

 private:
  struct Times;
  const Models& models_;
  std::unique_ptr<Times> times_;
};

}  // namespace quire::server
