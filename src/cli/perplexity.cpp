// `quire perplexity`
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <iostream>

#include "cli/common.h"
#include "cli/report.h"
#include "core/clock.h"
#include "lab/perplexity.h"

namespace quire::cli {
namespace {

constexpr double kLogSeconds = 10;  // between lines where nobody watches

struct Options {
  ModelOptions model;
  std::string file;
  std::int64_t chunks = 0, skip = 0, stride = 0, score_last = 0;
  std::string per_token;
  bool kld = false;
  bool json = false;
};

nlohmann::ordered_json to_json(const PerplexityReport& r, std::size_t text_bytes, const CacheReport& cache) {
  nlohmann::ordered_json out{
      {"text_bytes", text_bytes},         {"chunks", r.chunks},         {"ctx", r.ctx},
      {"scored_tokens", r.scored_tokens}, {"perplexity", r.perplexity}, {"stderr", r.standard_error}};
  if (r.divergence) {
    out["kld"] = {{"mean", r.divergence->mean},
                  {"median", r.divergence->median},
                  {"p99", r.divergence->p99},
                  {"same_top_percent", r.divergence->same_top_percent},
                  {"loss_rise", r.divergence->loss_rise},
                  {"loss_rise_stderr", r.divergence->loss_rise_error}};
  }
  out["cache"] = cache_json(cache);
  return out;
}

int measure(Options o) {
  if (o.model.context == 0) o.model.context = 512;
  const auto text = read_text(o.file);
  if (!text.ok()) return report_error(text.error());
  const auto model = o.model.load();
  if (!model.ok()) return report_error(model.error());
  auto session = o.model.open(*model, 0);
  if (!session.ok()) return report_error(session.error());
  std::optional<Session> base;
  if (o.kld) {
    ModelOptions plain = o.model;
    plain.cache = {};
    plain.kernels = "exact";
    auto opened = plain.open(*model, 0);
    if (!opened.ok()) return report_error(opened.error());
    base.emplace(std::move(*opened));
  }
  const std::vector<TokenId> tokens = (*model)->tokenize(*text);
  PerplexityOptions options;
  options.ctx = o.model.context;
  options.chunks = o.chunks;
  options.skip = o.skip;
  options.stride = o.stride;
  options.score_last = o.score_last;
  std::ofstream per_token;
  if (!o.per_token.empty()) {
    per_token.open(o.per_token);
    if (!per_token) return report_error({Errc::io, fmt::format("{}: cannot write", o.per_token)});
    options.on_token = [&](std::int64_t index, double loss) { per_token << fmt::format("{} {:.6f}\n", index, loss); };
  }
  options.base = base ? &*base : nullptr;
  options.cancel = &interrupted();
  const bool progress = is_terminal(STDERR_FILENO);
  const auto start = Clock::now();
  double told = 0;  // seconds from the start to the last line that was said
  options.on_chunk = [&](const PerplexityReport& r) {
    const double taken = milliseconds_since(start) / 1000;
    const double left = taken / static_cast<double>(r.chunks) * static_cast<double>(r.planned_chunks - r.chunks);
    // On a terminal one line that changes; elsewhere, as in a log, a line now and then.
    if (!progress && taken - told < kLogSeconds) return;
    told = taken;
    say(fmt::format("{}chunk {} of {}: perplexity {:.4f}; about {} left{}", progress ? "\r\033[K" : "", r.chunks,
                    r.planned_chunks, r.perplexity, duration(left), progress ? "" : "\n"));
  };
  catch_interrupts();
  const auto report = perplexity(**model, *session, tokens, options);
  if (progress) say("\r\033[K");
  if (!report.ok()) {
    if (report.error().code == Errc::cancelled) return kInterrupted;
    return report_error(report.error());
  }
  if (o.json) {
    std::cout << to_json(*report, text->size(), session->cache()).dump(2) << '\n';
    return kSuccess;
  }
  fmt::print("perplexity {:.4f} +/- {:.4f} over {} tokens in {} chunks of {}\n", report->perplexity,
             report->standard_error, report->scored_tokens, report->chunks, report->ctx);
  if (const auto& d = report->divergence) {
    fmt::print("KLD from f16: mean {:.6f}, median {:.6f}, p99 {:.6f}; same top token {:.2f} %\n", d->mean, d->median,
               d->p99, d->same_top_percent);
    fmt::print("perplexity against f16: {:+.3f} +/- {:.3f} %\n", 100 * std::expm1(d->loss_rise),
               100 * d->loss_rise_error * std::exp(d->loss_rise));
  }
  return kSuccess;
}

}  // namespace

void add_perplexity(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("perplexity", "Measure how well a model predicts a text");
  command->footer("The text is cut into chunks of -c tokens (512 by default); the second half of each is scored.");
  options->model.kernels = "exact";  // rounding to 8 bits would hide what caches cost
  options->model.add_to(*command);
  command->add_option("-f,--file", options->file, "Text to predict; - for standard input")->required();
  const auto count = [&](const char* name, std::int64_t& value, const char* help) {
    command->add_option(name, value, help)->check(CLI::NonNegativeNumber)->capture_default_str();
  };
  count("--skip", options->skip, "Tokens of the text to leave out first");
  count("--stride", options->stride, "Tokens from one chunk's start to the next; 0 for -c");
  count("--score-last", options->score_last, "Predictions to score at the end of a chunk; 0 for its second half");
  command->add_option("--per-token", options->per_token, "File for the loss of every scored token: index and nats");
  command->add_option("--chunks", options->chunks, "Chunks to measure; 0 for the whole text")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--kld", options->kld,
                    "Also the divergence from the same model with f16 keys and values and exact kernels");
  command->add_flag("--json", options->json, "Print one JSON document");
  command->callback([options, &exit_status] { exit_status = measure(*options); });
}

}  // namespace quire::cli
