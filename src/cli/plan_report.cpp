#include "cli/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "cli/report.h"

namespace quire::cli {
namespace {

using Json = nlohmann::ordered_json;
using Out = std::back_insert_iterator<std::string>;

// Whole bytes where they are: most formats take a whole number per token.
Json number(double value) {
  const auto whole = static_cast<std::uint64_t>(value);
  return static_cast<double>(whole) == value ? Json(whole) : Json(value);
}

Json figures_json(const CacheFigures& f) {
  return {{"kv_bytes", f.kv_bytes}, {"max_sequences", f.max_sequences}, {"max_context", f.max_context}};
}

// Vendors and drivers count in different units; both are shown so that nobody has to guess.
std::string both_units(std::uint64_t bytes) {
  return fmt::format("{} ({:.2f} GB)", human_bytes(bytes), static_cast<double>(bytes) / 1e9);
}

std::string duration(double ms) {
  if (ms >= 10'000) return fmt::format("{:.1f} s", ms / 1000);
  return ms >= 100 ? fmt::format("{:.0f} ms", ms) : fmt::format("{:.2f} ms", ms);
}

std::string_view bound(bool compute) { return compute ? "arithmetic" : "reading"; }

void print_model(Out out, const Plan& p) {
  const PlanModel& m = p.model;
  const std::int64_t kv_dim = m.is_latent() ? m.latent + m.rope : m.head_dim;
  fmt::format_to(out, "{}: {} layers, {} query heads, {}, {} values each ({})\n", m.name, m.layers, m.q_heads,
                 m.is_latent() ? "one latent" : fmt::format("{} KV heads", m.kv_heads), kv_dim, m.attention());
  if (m.weights_bytes > 0) {
    fmt::format_to(out, "  weights                {:.2f} billion parameters, {}\n",
                   static_cast<double>(m.parameters) / 1e9, both_units(m.weights_bytes));
  }
  if (m.context > 0 && p.context > m.context) {
    fmt::format_to(out, "  note                   trained for {} tokens, {} are planned\n", m.context, p.context);
  }
}

std::string in_each(const Plan& p) {
  return p.sequences == 1 ? std::string() : fmt::format(" in each of {} sequences", p.sequences);
}

void print_cache(Out out, const Plan& p) {
  fmt::format_to(out, "\nCache: keys {}, values {}, policy {}\n", p.type_k, p.type_v, p.policy);
  fmt::format_to(out, "  per token              {:.0f} bytes ({:.1f} KiB)\n", p.bytes_per_token,
                 p.bytes_per_token / 1024);
  fmt::format_to(out, "  {:<22} {}\n", fmt::format("{} x {} tokens", p.sequences, p.context),
                 both_units(p.all_layers.kv_bytes));
  if (p.with_windows) {
    fmt::format_to(out, "  with its own windows   {}: {} of {} layers see {} tokens\n",
                   both_units(p.with_windows->kv_bytes), p.model.window_layers, p.model.layers, p.model.window);
  }
  fmt::format_to(out, "  as Quire allocates     {}, in pages of {} tokens\n", human_bytes(p.paged_bytes), kPageTokens);
  if (p.kv_exceeds_weights_at > 0) {
    fmt::format_to(out, "  outweighs the weights  from {} tokens{}\n", p.kv_exceeds_weights_at, in_each(p));
  }
  fmt::format_to(out, "\nIn {} for the cache\n", both_units(p.memory));
  const CacheFigures& f = p.with_windows ? *p.with_windows : p.all_layers;
  fmt::format_to(out, "  sequences of {:<9} {}\n", p.context, f.max_sequences);
  fmt::format_to(out, "  paged                  {}, when they are {} tokens long on average\n", p.sequences_paged,
                 p.mean_tokens);
  fmt::format_to(out, "  preallocated           {}, whatever they need\n", p.sequences_preallocated);
  if (f.max_context == kMostPlannedTokens) {
    fmt::format_to(out, "  longest context        any: what is kept stops growing\n");
  } else {
    fmt::format_to(out, "  longest context        {} tokens{}\n", f.max_context, in_each(p));
  }
}

void print_choices(Out out, const Plan& p) {
  fmt::format_to(out, "\n  {:<8} {:>14} {:>12} {:>12} {:>10}\n", "format", "bytes/token", "cache", "allocated",
                 "sequences");
  for (const FormatFigures& f : p.formats) {
    fmt::format_to(out, "  {:<8} {:>14.1f} {:>12} {:>12} {:>10}\n", f.type_k, f.bytes_per_token,
                   human_bytes(f.kv_bytes), human_bytes(f.paged_bytes), f.max_sequences_with_windows);
  }
  fmt::format_to(out, "\n  {:<10} {:>8} {:>14} {:>12} {:>12}\n", "attention", "KV heads", "values/layer", "bytes/token",
                 "cache");
  for (const AttentionFigures& a : p.attention) {
    fmt::format_to(out, "  {:<10} {:>8} {:>14} {:>12.0f} {:>12}{}\n", a.attention, a.kv_heads, a.values,
                   a.bytes_per_token, human_bytes(a.kv_bytes),
                   a.attention == p.model.attention() ? "  <- this model" : "");
  }
  fmt::format_to(out, "\nWhat compounds\n");
  for (const Saving& s : p.savings) {
    fmt::format_to(out, "  {:>12}  x {:<6.3g} {}\n", human_bytes(s.kv_bytes), s.factor, s.what);
  }
}

// A bar for every doubling of the context, a mark where the weights lie.
void print_chart(Out out, const Plan& p) {
  constexpr std::size_t kWidth = 48;
  const double scale =
      static_cast<double>(kWidth) / static_cast<double>(std::max<std::uint64_t>(p.lengths.back().kv_bytes, 1));
  const auto columns = [&](std::uint64_t bytes) {
    return static_cast<std::size_t>(std::lround(static_cast<double>(bytes) * scale));
  };
  const bool marked = p.model.weights_bytes > 0 && columns(p.model.weights_bytes) < kWidth;
  fmt::format_to(out, "\nCache by context, {} sequence{}{}\n", p.sequences, p.sequences == 1 ? "" : "s",
                 marked ? "; | the weights" : "");
  for (const LengthFigures& at : p.lengths) {
    std::string bar(kWidth, ' ');
    std::fill_n(bar.begin(), std::min(columns(at.kv_bytes), kWidth), '#');
    if (marked) bar[columns(p.model.weights_bytes)] = '|';
    bar.erase(bar.find_last_not_of(' ') + 1);
    fmt::format_to(out, "  {:>10} {:>11}  {}\n", at.context, human_bytes(at.kv_bytes), bar);
  }
}

void print_speed(Out out, const Plan& p) {
  const Machine& m = p.machine;
  fmt::format_to(out, "\nOn {} x {} ({}), at {:.0f} % of its arithmetic and {:.0f} % of its reading\n", m.devices,
                 m.device.name, m.device.description, 100 * m.compute_share, 100 * m.read_share);
  if (p.devices_needed > m.devices) {
    fmt::format_to(out, "  note                   weights and cache need {} of them\n", p.devices_needed);
  }
  fmt::format_to(out, "  prompt of {:<12} {}, bound by {}; {:.3g} dollars a million tokens\n", p.context,
                 duration(p.prefill.ms), bound(p.prefill.compute_bound), p.dollars_per_million_in);
  fmt::format_to(out, "  each next token        {}, bound by {}; {:.3g} dollars a million tokens\n",
                 duration(p.decode.ms), bound(p.decode.compute_bound), p.dollars_per_million_out);
  fmt::format_to(out, "\n  {:>10} {:>12} {:>12} {:>12}  {}\n", "sequences", "per step", "tokens/s", "$/million",
                 "bound by");
  for (const BatchFigures& b : p.batches) {
    fmt::format_to(out, "  {:>10} {:>12} {:>12.0f} {:>12.3g}  {}{}\n", b.sequences, duration(b.step_ms),
                   b.tokens_per_second, b.dollars_per_million, bound(b.compute_bound), b.fits ? "" : "; does not fit");
  }
  fmt::format_to(out, "\n  {:<12} {:>7} {:>12} {:>12} {:>10} {:>10} {:>10}\n", "hardware", "devices", "prompt",
                 "per token", "tokens/s", "$/M in", "$/M out");
  for (const HardwareFigures& h : p.hardware) {
    fmt::format_to(out, "  {:<12} {:>7} {:>12} {:>12} {:>10.0f} {:>10.3g} {:>10.3g}\n", h.hardware.name, h.devices,
                   duration(h.prefill_ms), duration(h.decode_ms), h.tokens_per_second, h.dollars_per_million_in,
                   h.dollars_per_million_out);
  }
}

void print_generating(Out out, const Generating& g) {
  fmt::format_to(out, "\nGenerating {} tokens after {}: the cache grows from {} to {}\n", g.generated, g.prompt,
                 human_bytes(g.kv_bytes_before), human_bytes(g.kv_bytes_after));
  fmt::format_to(out, "  tokens computed        {:.0f} with the cache, {:.0f} without: {:.0f} x\n", g.tokens_cached,
                 g.tokens_uncached, g.tokens_uncached / g.tokens_cached);
  fmt::format_to(out, "  operations             {:.3g} with the cache, {:.3g} without: {:.0f} x\n", g.operations_cached,
                 g.operations_uncached, g.operations_uncached / g.operations_cached);
}

Json lists_json(const Plan& p) {
  Json out;
  for (const FormatFigures& f : p.formats) {
    out["formats"].push_back({{"type_k", f.type_k},
                              {"type_v", f.type_v},
                              {"bytes_per_token", number(f.bytes_per_token)},
                              {"kv_bytes", f.kv_bytes},
                              {"paged_bytes", f.paged_bytes},
                              {"max_sequences", f.max_sequences},
                              {"max_sequences_with_windows", f.max_sequences_with_windows}});
  }
  for (const AttentionFigures& a : p.attention) {
    out["attention_kinds"].push_back({{"attention", a.attention},
                                      {"kv_heads", a.kv_heads},
                                      {"values_per_layer", a.values},
                                      {"bytes_per_token", number(a.bytes_per_token)},
                                      {"kv_bytes", a.kv_bytes}});
  }
  for (const Saving& s : p.savings) {
    out["savings"].push_back({{"what", s.what}, {"kv_bytes", s.kv_bytes}, {"factor", s.factor}});
  }
  for (const BatchFigures& b : p.batches) {
    out["batches"].push_back({{"sequences", b.sequences},
                              {"step_ms", b.step_ms},
                              {"tokens_per_second", b.tokens_per_second},
                              {"dollars_per_million", b.dollars_per_million},
                              {"bound_by", bound(b.compute_bound)},
                              {"fits", b.fits}});
  }
  for (const LengthFigures& l : p.lengths) {
    out["lengths"].push_back({{"ctx", l.context}, {"kv_bytes", l.kv_bytes}});
  }
  for (const HardwareFigures& h : p.hardware) {
    out["hardware"].push_back({{"name", h.hardware.name},
                               {"devices", h.devices},
                               {"prefill_ms", h.prefill_ms},
                               {"decode_ms_per_token", h.decode_ms},
                               {"tokens_per_second", h.tokens_per_second},
                               {"dollars_per_million_in", h.dollars_per_million_in},
                               {"dollars_per_million_out", h.dollars_per_million_out}});
  }
  return out;
}

}  // namespace

nlohmann::ordered_json plan_json(const Plan& p) {
  const PlanModel& m = p.model;
  Json out{{"model", m.name},
           {"layers", m.layers},
           {"kv_heads", m.is_latent() ? 1 : m.kv_heads},
           {"head_dim", m.is_latent() ? m.latent + m.rope : m.head_dim},
           {"attention", m.attention()},
           {"q_heads", m.q_heads},
           {"parameters", m.parameters},
           {"active_parameters", m.active},
           {"type_k", p.type_k},
           {"type_v", p.type_v},
           {"policy", p.policy},
           {"bytes_per_token", number(p.bytes_per_token)},
           {"ctx", p.context},
           {"sequences", p.sequences},
           {"kv_bytes", p.all_layers.kv_bytes},
           {"paged_bytes", p.paged_bytes},
           {"weights_bytes", m.weights_bytes},
           {"memory_bytes", p.memory},
           {"max_sequences", p.all_layers.max_sequences},
           {"max_sequences_paged", p.sequences_paged},
           {"max_sequences_preallocated", p.sequences_preallocated},
           {"mean_tokens", p.mean_tokens},
           {"max_context", p.all_layers.max_context},
           {"kv_exceeds_weights_at", p.kv_exceeds_weights_at},
           {"device", p.machine.device.name},
           {"devices", p.machine.devices},
           {"devices_needed", p.devices_needed},
           {"prefill_ms", p.prefill.ms},
           {"decode_ms_per_token", p.decode.ms},
           {"dollars_per_million_in", p.dollars_per_million_in},
           {"dollars_per_million_out", p.dollars_per_million_out}};
  if (p.with_windows) {
    out["with_windows"] = figures_json(*p.with_windows);
    out["with_windows"]["window"] = m.window;
    out["with_windows"]["layers"] = m.window_layers;
  }
  if (const auto& g = p.generating) {
    out["generating"] = {{"prompt", g->prompt},
                         {"generated", g->generated},
                         {"kv_bytes_before", g->kv_bytes_before},
                         {"kv_bytes_after", g->kv_bytes_after},
                         {"tokens_cached", number(g->tokens_cached)},
                         {"tokens_uncached", number(g->tokens_uncached)},
                         {"operations_cached", g->operations_cached},
                         {"operations_uncached", g->operations_uncached}};
  }
  out.update(lists_json(p));
  return out;
}

std::string plan_text(const Plan& plan) {
  std::string text;
  const Out out(text);
  print_model(out, plan);
  print_cache(out, plan);
  print_choices(out, plan);
  print_chart(out, plan);
  print_speed(out, plan);
  if (plan.generating) print_generating(out, *plan.generating);
  return text;
}

}  // namespace quire::cli
