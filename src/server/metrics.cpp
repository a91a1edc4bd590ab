#include "server/metrics.h"

#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <map>

namespace quire::server {

using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::MetricType;

namespace {

const Histogram::BucketBoundaries kSeconds{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
                                           1,     2,     5,     10,   20,   50,   100, 200};

using HistogramFamily = prometheus::Family<Histogram>;

HistogramFamily& add_family(prometheus::Registry& registry, const std::string& name, const std::string& help) {
  return prometheus::BuildHistogram().Name("quire_" + name).Help(help).Register(registry);
}

// A family with one value for each model.
class Family {
 public:
  Family(std::vector<MetricFamily>& all, MetricType type, const std::string& name, const std::string& help) {
    all.push_back({"quire_" + name, help, type, {}});
    family_ = &all.back();
  }
  Family& add(const std::string& model, double value, const std::string& state = "") {
    prometheus::ClientMetric metric;
    if (!model.empty()) metric.label.push_back({"model_name", model});
    if (!state.empty()) metric.label.push_back({"state", state});
    if (family_->type == MetricType::Counter) metric.counter.value = value;
    if (family_->type == MetricType::Gauge) metric.gauge.value = value;
    family_->metric.push_back(std::move(metric));
    return *this;
  }

 private:
  MetricFamily* family_;
};

}  // namespace

struct Metrics::Times {
  prometheus::Registry registry;
  HistogramFamily& first_tokens =
      add_family(registry, "time_to_first_token_seconds", "From submission to the first token");
  HistogramFamily& between =
      add_family(registry, "inter_token_latency_seconds", "Median time between two tokens of a request");
  HistogramFamily& ends = add_family(registry, "e2e_request_latency_seconds", "From submission to the last token");
  HistogramFamily& queues = add_family(registry, "request_queue_time_seconds", "Time spent waiting in line");
  HistogramFamily& prefills = add_family(registry, "request_prefill_time_seconds", "Time spent on the prompt");
  HistogramFamily& decodes = add_family(registry, "request_decode_time_seconds", "Time spent generating");

  struct OfModel {
    OfModel(Times& all, const prometheus::Labels& label)
        : first_token(all.first_tokens.Add(label, kSeconds)),
          between_tokens(all.between.Add(label, kSeconds)),
          end_to_end(all.ends.Add(label, kSeconds)),
          queue(all.queues.Add(label, kSeconds)),
          prefill(all.prefills.Add(label, kSeconds)),
          decode(all.decodes.Add(label, kSeconds)) {}
    Histogram &first_token, &between_tokens, &end_to_end, &queue, &prefill, &decode;
    std::atomic<std::uint64_t> succeeded{0};
  };
  std::map<std::string, OfModel> models;
};

Metrics::Metrics(const Models& models) : models_(models), times_(std::make_unique<Times>()) {
  for (const ModelView& model : models_.look_at_all()) {
    times_->models.try_emplace(model.name, *times_, prometheus::Labels{{"model_name", model.name}});
  }
}
Metrics::~Metrics() = default;

void Metrics::observe(const std::string& model, const RequestReport& report) {
  Times::OfModel& times = times_->models.at(model);
  ++times.succeeded;
  times.first_token.Observe(report.first_token_ms / 1e3);
  if (report.between_tokens_p50_ms > 0) times.between_tokens.Observe(report.between_tokens_p50_ms / 1e3);
  times.end_to_end.Observe((report.queue_ms + report.prefill_ms + report.decode_ms) / 1e3);
  times.queue.Observe(report.queue_ms / 1e3);
  times.prefill.Observe(report.prefill_ms / 1e3);
  times.decode.Observe(report.decode_ms / 1e3);
}

std::string Metrics::text() const {
  std::vector<MetricFamily> all;
  const std::vector<ModelView> models = models_.look_at_all();  // of each one look, so that its numbers agree
  const auto per_model = [&](MetricType type, const std::string& name, const std::string& help, auto value) {
    Family family(all, type, name, help);
    for (const ModelView& model : models) family.add(model.name, static_cast<double>(value(model.stats)));
  };
  const auto gauge = [&](const std::string& name, const std::string& help, auto value) {
    per_model(MetricType::Gauge, name, help, value);
  };
  const auto counter = [&](const std::string& name, const std::string& help, auto value) {
    per_model(MetricType::Counter, name, help, value);
  };
  using Stats = const EngineStats&;
  gauge("num_requests_running", "Requests being computed", [](Stats s) { return s.running; });
  gauge("num_requests_waiting", "Requests in line", [](Stats s) { return s.waiting; });
  gauge("kv_cache_usage_perc", "Share of the cache's budget that running requests hold, 0 to 1", [](Stats s) {
    return s.bytes_budget > 0 ? static_cast<double>(s.bytes_used) / static_cast<double>(s.bytes_budget) : 0.0;
  });
  gauge("kv_cache_used_bytes", "Bytes held by running requests", [](Stats s) { return s.bytes_used; });
  gauge("kv_cache_cached_bytes", "Bytes that only the prefix cache holds", [](Stats s) { return s.bytes_cached; });
  gauge("kv_cache_budget_bytes", "The most the cache may take", [](Stats s) { return s.bytes_budget; });
  Family pages(all, MetricType::Gauge, "kv_cache_pages", "Pages by state");
  for (const ModelView& model : models) {
    pages.add(model.name, static_cast<double>(model.stats.pages_open), "open")
        .add(model.name, static_cast<double>(model.stats.pages_sealed), "sealed")
        .add(model.name, static_cast<double>(model.stats.pages_shared), "shared");
  }
  counter("num_preemptions_total", "Requests that made room for others", [](Stats s) { return s.preemptions; });
  counter("prefix_cache_queries_total", "Prompt tokens looked up", [](Stats s) { return s.prompt_tokens; });
  counter("prefix_cache_hits_total", "Prompt tokens found", [](Stats s) { return s.cached_tokens; });
  counter("prompt_tokens_total", "Prompt tokens", [](Stats s) { return s.prompt_tokens; });
  counter("prompt_tokens_cached_total", "Prompt tokens found in the cache", [](Stats s) { return s.cached_tokens; });
  counter("generation_tokens_total", "Tokens generated", [](Stats s) { return s.generated_tokens; });
  counter("computed_tokens_total", "Positions that went through the model", [](Stats s) { return s.computed_tokens; });
  counter("spec_decode_num_draft_tokens_total", "Tokens guessed", [](Stats s) { return s.drafted_tokens; });
  counter("spec_decode_num_accepted_tokens_total", "Guesses that held", [](Stats s) { return s.accepted_tokens; });
  counter("requests_cancelled_total", "Requests whose client left", [](Stats s) { return s.cancelled; });
  counter("requests_refused_total", "Requests that were refused", [](Stats s) { return s.refused; });
  counter("engine_steps_total", "Steps computed", [](Stats s) { return s.steps; });
  Family loaded(all, MetricType::Gauge, "model_loaded", "1 where the model is in memory");
  for (const ModelView& model : models) loaded.add(model.name, model.served == nullptr ? 0 : 1);
  Family loads(all, MetricType::Counter, "model_loads_total", "How often the model was loaded");
  for (const ModelView& model : models) loads.add(model.name, static_cast<double>(model.loads));
  Family answered(all, MetricType::Counter, "request_success_total", "Requests answered to the end");
  for (const auto& [name, times] : times_->models) answered.add(name, static_cast<double>(times.succeeded.load()));
  Family(all, MetricType::Counter, "client_disconnects_total", "Clients that left before the end")
      .add("", static_cast<double>(disconnected.load()));
  for (MetricFamily& family : times_->registry.Collect()) all.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace quire::server
