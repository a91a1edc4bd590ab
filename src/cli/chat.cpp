// A conversation in the terminal. Every turn sends the whole conversation; the session computes
// only what it has not seen.
#include <editline/readline.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>

#include "cli/report.h"
#include "cli/run.h"

namespace quire::cli {
namespace {

constexpr const char* kHelp =
    "/reset  start over\n"
    "/stats  what the last answer took and what the cache holds\n"
    "/help   this\n"
    "/exit   leave (or Ctrl-D); Ctrl-C stops an answer";

volatile std::sig_atomic_t resumed = 0;  // set when the program comes back from Ctrl-Z

// Nothing at the end of input. A signal ends readline() the same way (and errno does not tell them
// apart: libedit keeps an old one), so Ctrl-C and coming back from Ctrl-Z are noted by their handlers.
std::optional<std::string> read_line() {
  resumed = 0;
  const std::unique_ptr<char, void (*)(void*)> line(readline("> "), std::free);
  if (line == nullptr && (interrupted() || resumed != 0)) {
    std::cout << '\n';
    return "";
  }
  if (line == nullptr) return std::nullopt;
  if (*line != '\0') add_history(line.get());
  return std::string(line.get());
}

class Chat {
 public:
  Chat(std::shared_ptr<const Model> model, Session session, const RunOptions& options)
      : model_(std::move(model)), session_(std::move(session)), options_(options) {
    reset();
  }

  int loop() {
    print_note(fmt::format("{} ({}), {} tokens of context, {} threads, {} kernels. /help lists the commands.",
                           model_->info().name.empty() ? "model" : model_->info().name, model_->info().path,
                           session_.context(), session_.threads(), session_.kernels()));
    while (true) {
      interrupted() = computing() = false;
      const auto line = read_line();
      if (!line) {
        std::cout << '\n';
        return kSuccess;
      }
      if (line->empty()) continue;
      if (*line == "/exit" || *line == "/quit") return kSuccess;
      if (!command(*line)) answer(*line);
    }
  }

 private:
  void reset() {
    session_.reset();
    messages_.clear();
    last_.reset();
    if (!options_.system.empty()) messages_.push_back({"system", options_.system});
  }

  bool command(const std::string& line) {
    if (line == "/reset") {
      reset();
      print_note("started over");
    } else if (line == "/stats") {
      print_note(last_ ? summary(*last_, session_.cache()) : cache_summary(session_.cache()));
    } else if (line == "/help") {
      print_note(kHelp);
    } else if (line.starts_with('/')) {
      print_note(fmt::format("no command {}\n{}", line, kHelp));
    } else {
      return false;
    }
    return true;
  }

  void answer(const std::string& text) {
    interrupted() = false;
    computing() = true;
    messages_.push_back({"user", text});
    GenerateOptions options;
    options.max_tokens = options_.predict;
    options.ignore_end = options_.ignore_end;
    options.use_cache = !options_.no_cache;
    options.sampling = seeded(options_);
    options.cancel = &interrupted();
    options.on_prefill = prefill_progress(false);
    options.on_token = [](TokenId, std::string_view piece) { std::cout << piece << std::flush; };
    const auto prompt = model_->chat_prompt(messages_);
    auto generation = prompt.ok() ? session_.generate(*prompt, options) : Result<Generation>(prompt.error());
    std::cout << '\n' << std::flush;
    if (!generation.ok()) {
      // The turn is taken back, so that the conversation stays as it was.
      messages_.pop_back();
      if (generation.error().code == Errc::context_full) {
        print_note(fmt::format("the conversation no longer fits: {}. /reset starts over.", generation.error().message));
      } else {
        report_error(generation.error());
      }
      return;
    }
    if (generation->stop == StopReason::context_full) {
      print_note(
          fmt::format("the context of {} tokens is full: the answer ends here. /reset starts over; -c raises it.",
                      session_.context()));
    }
    messages_.push_back({"assistant", generation->text});
    last_ = std::move(*generation);
  }

  std::shared_ptr<const Model> model_;
  Session session_;
  const RunOptions& options_;
  std::vector<Message> messages_;
  std::optional<Generation> last_;
};

}  // namespace

int chat(const RunOptions& options) {
  const auto model = options.model.load();
  if (!model.ok()) return report_error(model.error());
  if (!(*model)->has_chat_template()) {
    return report_error(
        {Errc::unsupported,
         fmt::format("{}: a base model without a chat template; complete text with -p or -f", (*model)->info().path)});
  }
  auto session = options.model.open(*model, 0);
  if (!session.ok()) return report_error(session.error());
  catch_interrupts();
  std::signal(SIGCONT, [](int) { resumed = 1; });
  return Chat(*model, std::move(*session), options).loop();
}

}  // namespace quire::cli
