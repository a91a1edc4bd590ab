// A conversation: each turn computes only what is new, and an edit keeps all before it.
#include <algorithm>
#include <array>
#include <string_view>

#include "show.h"

namespace quire::bench {
namespace {

struct Options {
  std::int64_t opening = 640;  // more than the window of a model's local layers
  std::int64_t predict = 64;
};

constexpr std::array<std::string_view, 10> kQuestions{
    "I would like to plant a small vegetable garden behind my house. Where should I begin?",
    "The ground there is mostly clay, and it stays wet until May. What can I do about that?",
    "Which three vegetables are the easiest for somebody who has never grown anything?",
    "How far apart should I put the plants, and how deep do the seeds go?",
    "My neighbour says that marigolds keep insects away. Is there anything to it?",
    "I am away for two weeks every July. How will the plants get water then?",
    "Something has eaten holes into the leaves of my cabbages. What could it be?",
    "When do I know that the beans are ready to be picked?",
    "What should I do with the beds in autumn, when everything has been harvested?",
    "Please sum up what we have talked about in two sentences."};
constexpr std::string_view kEdited = "Which two herbs are the easiest for somebody who only has a balcony?";
constexpr std::size_t kEditedTurn = 3;

Result<Tokens> prompt(const Model& model, const std::vector<Message>& messages) {
  if (model.has_chat_template()) return model.chat_prompt(messages);
  std::string text;
  for (const Message& message : messages) {
    // An answer begins with the space that the model put there.
    text += message.role == "user" ? fmt::format("Question: {}\n", message.content)
                                   : fmt::format("Answer:{}\n", message.content);
  }
  return model.tokenize(text + "Answer:");
}

std::int64_t common_prefix(const Tokens& a, const Tokens& b) { return std::ranges::mismatch(a, b).in1 - a.begin(); }

class Conversation {
 public:
  Conversation(const Model& model, Engine& engine, std::int64_t predict)
      : model_(model), engine_(engine), predict_(predict) {}

  struct Turn {
    std::int64_t prompt, cached, computed, known, answered;
    std::string text;
    Json json() const {
      return {{"prompt_tokens", prompt},
              {"cached_tokens", cached},
              {"computed_tokens", computed},
              {"known_tokens", known},
              {"answered_tokens", answered}};
    }
  };

  Result<Turn> say_to(const std::vector<Message>& messages) {
    QUIRE_TRY(Tokens tokens, prompt(model_, messages));
    Turn turn{};
    for (const Tokens& computed : computed_) turn.known = std::max(turn.known, common_prefix(computed, tokens));
    turn.known = std::min(turn.known, std::ssize(tokens) - 1);  // the last is computed for what follows it
    Request request = greedy(tokens, predict_);
    request.ignore_end = false;
    if (!model_.has_chat_template()) request.stop = {"\nQuestion", "\nAnswer"};
    const std::uint64_t before = engine_.stats().computed_tokens;
    QUIRE_TRY(const Completion completion, answer(engine_, request));
    const Completion::Choice& said = completion.choices[0];
    turn.prompt = std::ssize(tokens);
    turn.cached = completion.report.cached_tokens;
    turn.answered = std::ssize(said.tokens);
    turn.text = said.text;
    // Of an answer that the model ended itself all tokens went through it; of others all but the last.
    const std::int64_t from_answer =
        said.stop == StopReason::end_of_generation ? turn.answered : std::max<std::int64_t>(turn.answered - 1, 0);
    turn.computed = static_cast<std::int64_t>(engine_.stats().computed_tokens - before) - from_answer;
    tokens.insert(tokens.end(), said.tokens.begin(), said.tokens.begin() + from_answer);
    computed_.push_back(std::move(tokens));
    return turn;
  }

 private:
  const Model& model_;
  Engine& engine_;
  std::int64_t predict_;
  std::vector<Tokens> computed_;  // everything that went through the model, turn by turn
};

Result<Shown> show(const Setting& setting, const Options& options) {
  const Model& model = *setting.model;
  QUIRE_TRY(Engine engine, setting.start());
  Conversation conversation(model, engine, options.predict);
  Dice dice(1);
  const std::string opening = model.text(made_up(model, dice, options.opening));
  std::vector<Message> messages;
  Json turns = Json::array();
  bool only_new = true, exact = true;
  std::int64_t last_prompt = 0;
  for (const std::string_view question : kQuestions) {
    messages.push_back({"user", (messages.empty() ? opening + "\n\n" : "") + std::string(question)});
    QUIRE_TRY(const auto turn, conversation.say_to(messages));
    say(fmt::format("chat: {}", turn.json().dump()));
    turns.push_back(turn.json());
    only_new = only_new && turn.cached >= last_prompt;
    exact = exact && turn.cached == turn.known && turn.computed == turn.prompt - turn.cached;
    last_prompt = turn.prompt;
    messages.push_back({"assistant", turn.text});
  }

  messages.resize(2 * kEditedTurn - 1);
  messages.back().content = kEdited;
  QUIRE_TRY(const auto edited, conversation.say_to(messages));
  say(fmt::format("chat: edited {}", edited.json().dump()));

  Shown shown;
  shown.figures = {{"template", model.has_chat_template()},
                   {"opening", options.opening},
                   {"predict", options.predict},
                   {"turns", turns},
                   {"edited_turn", kEditedTurn},
                   {"edit", edited.json()}};
  shown.require("from the second turn on, the whole prompt before is found", only_new);
  shown.require("only tokens that were never computed are computed", exact);
  shown.require("everything before the edit is found", edited.cached == edited.known);
  return shown;
}

}  // namespace

void add_chat(CLI::App& app, Show& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("chat", "Ten turns of a conversation, then an edit of the third");
  sub->add_option("--opening", options->opening, "Tokens of a text before the first question")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--predict", options->predict, "Most tokens of an answer")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->callback([&chosen, options] { chosen = [options](const Setting& setting) { return show(setting, *options); }; });
}

}  // namespace quire::bench
