#include "cli/run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <random>
#include <utility>

#include "cli/report.h"

namespace quire::cli {
namespace {

Result<std::string> prompt_text(const RunOptions& o) {
  if (o.prompt) return *o.prompt;
  return read_text(o.file.empty() ? "-" : o.file);
}

int complete(const RunOptions& o) {
  const auto text = prompt_text(o);
  if (!text.ok()) return report_error(text.error());
  const auto model = o.model.load();
  if (!model.ok()) return report_error(model.error());

  std::vector<TokenId> tokens;
  if (o.chat || !o.system.empty()) {
    std::vector<Message> messages;
    if (!o.system.empty()) messages.push_back({"system", o.system});
    messages.push_back({"user", *text});
    auto prompt = (*model)->chat_prompt(messages);
    if (!prompt.ok()) return report_error(prompt.error());
    tokens = std::move(*prompt);
  } else {
    tokens = (*model)->tokenize(*text);
  }
  auto session = o.model.open(*model, std::ssize(tokens) + std::max<std::int64_t>(o.predict, 512));
  if (!session.ok()) return report_error(session.error());

  GenerateOptions options;
  options.max_tokens = o.predict;
  options.ignore_end = o.ignore_end;
  options.use_cache = !o.no_cache;
  options.sampling = seeded(o);
  options.cancel = &interrupted();
  options.on_prefill = prefill_progress(o.json);
  // The text to complete comes back in front of the answer, once there is one.
  std::string echo = o.chat || !o.system.empty() ? "" : *text;
  if (!o.json) {
    options.on_token = [&echo](TokenId, std::string_view piece) {
      std::cout << std::exchange(echo, "") << piece << std::flush;
    };
  }
  catch_interrupts();
  const auto generation = session->generate(tokens, options);
  if (!generation.ok()) return report_error(generation.error());
  if (o.json) {
    std::cout << generation_json(**model, *generation, session->cache())
                     .dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
              << '\n';
  } else {
    std::cout << echo << '\n' << std::flush;
    if (generation->stop == StopReason::context_full) {
      print_note(fmt::format("stopped: the context of {} tokens is full; raise -c", session->context()));
    }
    print_note(summary(*generation, session->cache()));
  }
  return generation->stop == StopReason::cancelled ? kInterrupted : kSuccess;
}

int run(const RunOptions& o) {
  const bool wants_chat = !o.prompt && o.file.empty() && is_terminal(STDIN_FILENO) && !o.json;
  return wants_chat ? chat(o) : complete(o);
}

}  // namespace

SamplingOptions seeded(const RunOptions& o) {
  SamplingOptions sampling = o.sampling;
  sampling.seed = o.seed ? *o.seed : std::random_device{}();
  return sampling;
}

std::function<void(std::int64_t, std::int64_t)> prefill_progress(bool quiet) {
  if (quiet || !is_terminal(STDERR_FILENO)) return nullptr;
  return [](std::int64_t done, std::int64_t total) {
    // Short prompts are done before anybody could read it.
    if (total < 1024) return;
    if (done < total) say(fmt::format("\rreading the prompt: {} of {} tokens", done, total));
    if (done == total) say("\r\033[K");
  };
}

void print_note(const std::string& text) {
  if (is_terminal(STDERR_FILENO)) {
    say(fmt::format("\033[2m{}\033[0m\n", text));
  } else {
    say(fmt::format("{}\n", text));
  }
}

void add_run(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<RunOptions>();
  RunOptions& o = *options;
  CLI::App* command = app.add_subcommand("run", "Complete a text, or chat in the terminal");
  command->footer(
      "Without -p and -f it chats when standard input is a terminal, else completes standard input.\n"
      "Ctrl-C stops the answer.");
  o.model.add_to(*command);
  auto* prompt = command->add_option("-p,--prompt", o.prompt, "Text to complete");
  command->add_option("-f,--file", o.file, "File with the text to complete; - for standard input")->excludes(prompt);
  command->add_option("-n,--predict", o.predict, "Tokens to generate at most; -1 until the model ends")
      ->check(CLI::Range(std::int64_t{-1}, std::int64_t{1} << 40))
      ->capture_default_str();
  command->add_flag("--chat", o.chat, "Treat -p or -f as a user's message: apply the model's chat template");
  command->add_option("--system", o.system, "System message of a chat");
  command->add_option("--temp", o.sampling.temperature, "Temperature; 0 takes the likeliest token")
      ->capture_default_str();
  command->add_option("--top-k", o.sampling.top_k, "Sample from the k likeliest; 0 for all")->capture_default_str();
  command->add_option("--top-p", o.sampling.top_p, "Sample from the likeliest that sum to p; 1 for all")
      ->capture_default_str();
  command->add_option("--min-p", o.sampling.min_p, "Drop tokens below p times the likeliest; 0 for none")
      ->capture_default_str();
  command->add_option("--repeat-penalty", o.sampling.repeat_penalty, "Above 1 makes repetition less likely")
      ->capture_default_str();
  command->add_option("--repeat-last-n", o.sampling.repeat_last, "Tokens the penalty looks back on")
      ->capture_default_str();
  command->add_option("-s,--seed", o.seed, "Seed of the sampling; random without it");
  command->add_flag("--ignore-eos", o.ignore_end, "Go on where the model would end");
  command->add_flag("--no-cache", o.no_cache, "Recompute the whole sequence for every token");
  command->add_flag("--json", o.json, "Print one JSON document");
  command->callback([options, &exit_status] { exit_status = run(*options); });
}

}  // namespace quire::cli
