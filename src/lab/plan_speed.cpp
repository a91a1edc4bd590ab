#include "lab/plan_speed.h"

#include <algorithm>

namespace quire {
namespace {

// Tokens seen by the queries at positions [0, end), each sees itself and at most `limit` in all.
double seen_before(std::int64_t end, std::int64_t limit) {
  const auto n = static_cast<double>(end), most = static_cast<double>(limit);
  if (limit == 0 || end <= limit) return n * (n + 1) / 2;
  return most * (most + 1) / 2 + (n - most) * most;
}

PhaseTime slower(double operations, double bytes, const Machine& machine) {
  const double compute = operations / machine.operations_per_second(), read = bytes / machine.read_per_second();
  return {1000 * std::max(compute, read), compute > read};
}

}  // namespace

double Machine::operations_per_second() const {
  return device.operations_per_second * static_cast<double>(devices) * compute_share;
}
double Machine::read_per_second() const { return device.read_per_second * static_cast<double>(devices) * read_share; }
double Machine::dollars_per_second() const { return device.dollars_per_hour * static_cast<double>(devices) / 3600; }

double operations(const PlanModel& model, const KvVisibility& policy, std::int64_t first, std::int64_t last) {
  const auto seen = [&](std::int64_t window) {
    const KvVisibility visible = narrower({0, window}, policy);
    const std::int64_t limit = visible.window == 0 ? 0 : visible.sinks + visible.window;
    return seen_before(last, limit) - seen_before(first, limit);
  };
  const double pairs = static_cast<double>(model.layers - model.window_layers) * seen(0) +
                       static_cast<double>(model.window_layers) * seen(model.window);
  const double per_pair =
      2.0 * static_cast<double>(model.q_heads) * static_cast<double>(model.key_dim() + model.head_dim);
  return 2.0 * static_cast<double>(model.active) * static_cast<double>(last - first) + per_pair * pairs;
}

PhaseTime prefill_time(const PlanModel& model, const CacheDemand& cache, const Machine& machine, std::int64_t cached,
                       std::int64_t context) {
  const auto computed = static_cast<double>(std::max<std::int64_t>(context - cached, 1));
  return slower(operations(model, cache.visible(), std::min(cached, context - 1), context),
                model.weights_read(computed), machine);
}

PhaseTime decode_time(const PlanModel& model, const CacheDemand& cache, const Machine& machine, std::int64_t context,
                      std::int64_t sequences) {
  const auto n = static_cast<double>(sequences);
  const double bytes = model.weights_read(n) + static_cast<double>(cache.bytes(context, sequences));
  return slower(n * operations(model, cache.visible(), context - 1, context), bytes, machine);
}

double dollars_per_million(const Machine& machine, double ms, double tokens) {
  return machine.dollars_per_second() * ms / 1000 / tokens * 1e6;
}

Generating generating(const PlanModel& model, const CacheDemand& cache, std::int64_t prompt, std::int64_t generated) {
  Generating g{prompt, generated, cache.bytes(prompt, 1), cache.bytes(prompt + generated, 1), 0, 0, 0, 0};
  const std::int64_t computed = prompt + generated - 1;  // the last token is said, not read
  g.tokens_cached = static_cast<double>(computed);
  g.operations_cached = operations(model, cache.visible(), 0, computed);
  for (std::int64_t length = prompt; length <= computed; ++length) {
    g.tokens_uncached += static_cast<double>(length);
    g.operations_uncached += operations(model, cache.visible(), 0, length);
  }
  return g;
}

}  // namespace quire
