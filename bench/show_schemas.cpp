// Answers in ten JSON schemas at temperature 1: each parses and is valid, and following the schema costs
// little of the time.
#include "grammar/schema_validator.h"
#include "grammar/ten_schemas.h"
#include "show.h"

namespace quire::bench {
namespace {

struct Options {
  int runs = 20;
  std::int64_t predict = 256;
};

constexpr std::size_t kSchemas = std::size(testing_support::kTenSchemas);

Request request_for(const Model& model, const Options& options, const std::string& schema, std::uint64_t seed) {
  Request request;
  request.text = "Here is an example of a JSON document that follows the schema " + schema + ":\n";
  request.tokens = model.tokenize(request.text);
  request.sampling.temperature = 1;
  request.sampling.top_k = 0;
  request.sampling.top_p = 1;
  request.sampling.min_p = 0;
  request.sampling.seed = seed;
  request.max_tokens = options.predict;
  request.format = {OutputFormat::Kind::schema, schema};
  return request;
}

Result<Shown> show(const Setting& setting, const Options& options) {
  QUIRE_TRY(Engine engine, setting.start());
  std::int64_t valid = 0, total = 0, tokens = 0;
  double constrained_ms = 0, free_ms = 0;
  Json invalid = Json::array();
  for (const std::string schema : testing_support::kTenSchemas) {
    for (int run = 0; run < options.runs; ++run) {
      Request request = request_for(*setting.model, options, schema, static_cast<std::uint64_t>(run));
      QUIRE_TRY(const Completion completion, answer(engine, request));
      const auto& choice = completion.choices[0];
      const bool good =
          testing_support::is_valid_text(choice.text, schema) && std::ssize(choice.tokens) <= options.predict;
      ++total;
      valid += good;
      if (!good) invalid.push_back({{"schema", schema}, {"text", choice.text}});
      if (run == 0 || run > 4) continue;  // masks are made at first; then a few are timed
      // The same number of tokens without a schema, for the time it takes.
      const std::int64_t count = std::ssize(choice.tokens);
      if (count < 2) continue;
      request.format = {};
      request.ignore_end = true;
      request.max_tokens = count;
      QUIRE_TRY(const Completion freely, answer(engine, request));
      tokens += count - 1;
      constrained_ms += completion.report.decode_ms;
      free_ms += freely.report.decode_ms;
    }
    say(fmt::format("schemas: {} of {} valid", valid, total));
  }
  Shown shown;
  shown.figures = {{"schemas", kSchemas},
                   {"runs", total},
                   {"valid", valid},
                   {"timed_tokens", tokens},
                   {"constrained_ms_per_token", constrained_ms / static_cast<double>(tokens)},
                   {"free_ms_per_token", free_ms / static_cast<double>(tokens)},
                   {"ratio", constrained_ms / free_ms},
                   {"invalid", invalid}};
  shown.require("every answer parses and is valid", valid == total);
  return shown;
}

}  // namespace

void add_schemas(CLI::App& app, Show& chosen) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("schemas", "Answers in ten JSON schemas at temperature 1");
  command->add_option("--runs", options->runs, "Answers for each schema")->capture_default_str();
  command->add_option("-n,--predict", options->predict, "Most tokens of an answer")->capture_default_str();
  command->callback(
      [&chosen, options] { chosen = [options](const Setting& setting) { return show(setting, *options); }; });
}

}  // namespace quire::bench
