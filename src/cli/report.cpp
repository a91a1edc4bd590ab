#include "cli/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace quire::cli {
namespace {

double per_second(std::int64_t count, double ms) { return ms > 0 ? static_cast<double>(count) * 1000 / ms : 0; }

// Tokens after the first: the first one's time is the prompt's.
std::int64_t timed_tokens(const Timings& t) { return t.generated_tokens > 0 ? t.generated_tokens - 1 : 0; }

std::string_view stop_name(StopReason stop) {
  switch (stop) {
    case StopReason::end_of_generation:
      return "eos";
    case StopReason::max_tokens:
    case StopReason::context_full:
      return "length";
    case StopReason::cancelled:
    case StopReason::stop_string:
      return "stop";
  }
  return "stop";
}

}  // namespace

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  auto size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", size, kUnits[unit]);
}

std::string duration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", std::max(seconds, 1.0));
  return fmt::format("{:.0f} min", seconds / 60);
}

nlohmann::ordered_json cache_json(const CacheReport& c) {
  return {{"policy", c.policy},
          {"type_k", c.type_k},
          {"type_v", c.type_v},
          {"page_tokens", c.page_tokens},
          {"tokens", c.tokens},
          {"bytes", c.bytes},
          {"bytes_per_token", c.bytes_per_token},
          {"pages",
           {{"open", c.pages_open}, {"sealed", c.pages_sealed}, {"shared", c.pages_shared}, {"free", c.pages_free}}}};
}

nlohmann::ordered_json generation_json(const Model& model, const Generation& g, const CacheReport& cache) {
  const Timings& t = g.timings;
  return {{"model", model.info().path},
          {"text", g.text},
          {"tokens", g.tokens},
          {"stop", stop_name(g.stop)},
          {"timings",
           {{"prompt_n", t.prompt_tokens},
            {"prompt_ms", t.prompt_ms},
            {"prompt_per_second", per_second(t.prompt_tokens, t.prompt_ms)},
            {"cache_n", t.cached_tokens},
            {"predicted_n", t.generated_tokens},
            {"predicted_ms", t.generated_ms},
            {"predicted_per_second", per_second(timed_tokens(t), t.generated_ms)},
            {"ttft_ms", t.first_token_ms},
            {"itl_p50_ms", t.between_tokens_p50_ms},
            {"itl_p99_ms", t.between_tokens_p99_ms},
            {"draft_n", 0},
            {"draft_n_accepted", 0}}},
          {"computed_tokens", g.computed_tokens},
          {"cache", cache_json(cache)}};
}

std::string cache_summary(const CacheReport& c) {
  if (c.off) return "cache: off, 0 bytes";
  return fmt::format("cache: {} tokens, {}, {} per token, keys {}, values {}, policy {}; pages: {} sealed, {} open",
                     c.tokens, human_bytes(c.bytes), human_bytes(c.bytes_per_token), c.type_k, c.type_v, c.policy,
                     c.pages_sealed, c.pages_open);
}

std::string summary(const Generation& g, const CacheReport& cache) {
  const Timings& t = g.timings;
  return fmt::format(
      "prefill {} tokens ({} cached) {:.0f} tok/s, first token {:.0f} ms; "
      "decode {} tokens {:.1f} tok/s, p50 {:.1f} ms, p99 {:.1f} ms; computed {} tokens\n{}",
      t.prompt_tokens, t.cached_tokens, per_second(t.prompt_tokens, t.prompt_ms), t.first_token_ms, t.generated_tokens,
      per_second(timed_tokens(t), t.generated_ms), t.between_tokens_p50_ms, t.between_tokens_p99_ms, g.computed_tokens,
      cache_summary(cache));
}

}  // namespace quire::cli
