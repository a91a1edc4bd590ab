#include "server/answer.h"

#include <algorithm>

namespace quire::server {
namespace {

double per_second(std::int64_t tokens, double ms) { return ms > 0 ? 1e3 * static_cast<double>(tokens) / ms : 0; }

}  // namespace

const char* spelled_miss(MissReason reason) {
  switch (reason) {
    case MissReason::none:
      return "none";
    case MissReason::differs:
      return "differs";
    case MissReason::evicted:
      return "evicted";
    case MissReason::policy:
      return "policy";
  }
  return "none";
}

void add_report(RequestReport& total, const RequestReport& part) {
  const bool first = total.prompt_tokens == 0;
  total.prompt_tokens += part.prompt_tokens;
  total.cached_tokens += part.cached_tokens;
  total.generated_tokens += part.generated_tokens;
  total.drafted_tokens += part.drafted_tokens;
  total.accepted_tokens += part.accepted_tokens;
  total.preemptions += part.preemptions;
  if (first) {
    total.miss = part.miss;
    total.first_divergent = part.first_divergent;
  }
  total.queue_ms = std::max(total.queue_ms, part.queue_ms);
  total.prefill_ms = std::max(total.prefill_ms, part.prefill_ms);
  total.decode_ms = std::max(total.decode_ms, part.decode_ms);
  total.first_token_ms = std::max(total.first_token_ms, part.first_token_ms);
  total.between_tokens_p50_ms = std::max(total.between_tokens_p50_ms, part.between_tokens_p50_ms);
  total.between_tokens_p99_ms = std::max(total.between_tokens_p99_ms, part.between_tokens_p99_ms);
}

const char* finish_reason(StopReason stop) {
  switch (stop) {
    case StopReason::end_of_generation:
    case StopReason::stop_string:
      return "stop";
    case StopReason::max_tokens:
    case StopReason::context_full:
      return "length";
    case StopReason::cancelled:
      return "cancelled";
  }
  return "stop";
}

Json usage_of(const RequestReport& r) {
  return {{"prompt_tokens", r.prompt_tokens},
          {"completion_tokens", r.generated_tokens},
          {"total_tokens", r.prompt_tokens + r.generated_tokens},
          {"prompt_tokens_details", {{"cached_tokens", r.cached_tokens}}},
          {"completion_tokens_details",
           {{"accepted_prediction_tokens", r.accepted_tokens},
            {"rejected_prediction_tokens", r.drafted_tokens - r.accepted_tokens}}}};
}

Json timings_of(const RequestReport& r) {
  const std::int64_t computed = r.prompt_tokens - r.cached_tokens;
  return {{"cache_n", r.cached_tokens},
          {"prompt_n", computed},
          {"prompt_ms", r.prefill_ms},
          {"prompt_per_second", per_second(computed, r.prefill_ms)},
          {"predicted_n", r.generated_tokens},
          {"predicted_ms", r.decode_ms},
          {"predicted_per_second", per_second(r.generated_tokens, r.decode_ms)},
          {"queue_ms", r.queue_ms},
          {"ttft_ms", r.first_token_ms},
          {"itl_p50_ms", r.between_tokens_p50_ms},
          {"itl_p99_ms", r.between_tokens_p99_ms},
          {"draft_n", r.drafted_tokens},
          {"draft_n_accepted", r.accepted_tokens}};
}

Json progress_of(const PromptProgress& p) {
  return {{"total", p.total}, {"cache", p.cached}, {"processed", p.done}, {"time_ms", p.ms}};
}

Json cache_of(const RequestReport& r) {
  return {{"cached_tokens", r.cached_tokens},
          {"miss_reason", spelled_miss(r.miss)},
          {"first_divergent_token", r.first_divergent},
          {"preemptions", r.preemptions}};
}

std::string spelled(const Model& model, TokenId token) {
  const std::string text = model.text({&token, 1});
  // dump replaces what is not UTF-8; reading it back gives the same everywhere.
  return Json::parse(written(Json(text))).get<std::string>();
}

Json bytes_of(const Model& model, TokenId token) {
  Json bytes = Json::array();
  for (const char c : model.text({&token, 1})) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

}  // namespace quire::server
