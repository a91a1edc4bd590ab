// `quire perplexity`
#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

#include "cli/common.h"
#include "cli/report.h"
#include "lab/perplexity.h"

namespace quire::cli {
namespace {

struct Options {
  ModelOptions model;
  std::string file;
  std::int64_t chunks = 0;
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
                  {"same_top_percent", r.divergence->same_top_percent}};
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
    plain.type_k = plain.type_v = "f16";
    auto opened = plain.open(*model, 0);
    if (!opened.ok()) return report_error(opened.error());
    base.emplace(std::move(*opened));
  }
  const std::vector<TokenId> tokens = (*model)->tokenize(*text);
  PerplexityOptions options;
  options.ctx = o.model.context;
  options.chunks = o.chunks;
  options.base = base ? &*base : nullptr;
  options.cancel = &interrupted();
  const bool progress = is_terminal(STDERR_FILENO);
  if (progress) {
    options.on_chunk = [](const PerplexityReport& r) {
      say(fmt::format("\r\033[Kchunk {}: perplexity {:.4f}", r.chunks, r.perplexity));
    };
  }
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
  }
  return kSuccess;
}

}  // namespace

void add_perplexity(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("perplexity", "Measure how well a model predicts a text");
  command->footer("The text is cut into chunks of -c tokens (512 by default); the second half of each is scored.");
  options->model.add_to(*command);
  command->add_option("-f,--file", options->file, "Text to predict; - for standard input")->required();
  command->add_option("--chunks", options->chunks, "Chunks to measure; 0 for the whole text")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--kld", options->kld, "Also the divergence from the same model with f16 keys and values");
  command->add_flag("--json", options->json, "Print one JSON document");
  command->callback([options, &exit_status] { exit_status = measure(*options); });
}

}  // namespace quire::cli
