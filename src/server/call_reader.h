// Finds the calls in what a model says, as it says it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/fields.h"

namespace quire::server {

struct CallRules {
  enum class Mode {
    none,  // everything is text
    free,  // text, and calls as <tool_call>{"name": ..., "arguments": {...}}</tool_call>, or such JSON and nothing else
    one,   // one call's JSON, which a grammar has seen to
    list,  // a JSON list of calls, likewise
  };
  Mode mode = Mode::none;
  bool several = true;             // in Mode::free: calls after the first count
  std::vector<std::string> names;  // of functions; what calls others is text
};

struct AnswerPiece {
  enum class Kind {
    text,
    call,       // a call begins: its name
    arguments,  // some more of its arguments, as JSON
  };
  Kind kind;
  std::string text;
};

class CallReader {
 public:
  explicit CallReader(CallRules rules) : rules_(std::move(rules)) {}

  // What is certain after this much more text.
  std::vector<AnswerPiece> read(std::string_view text);
  // The rest; nothing more is read.
  std::vector<AnswerPiece> finish();

 private:
  enum class Place { start, text, block, json, after };

  void read_enforced(std::string_view text);
  void read_free(bool at_end);
  bool read_start(bool at_end);
  bool read_text(bool at_end);
  bool read_block(bool at_end);
  void say(AnswerPiece::Kind kind, std::string text);
  bool say_calls(const std::string& json);

  CallRules rules_;
  std::vector<AnswerPiece> said_;  // since last asked
  // Mode::free
  Place place_ = Place::start;
  std::string held_;  // it may be, or become, part of a call
  bool called_ = false;
  // Mode::one and Mode::list
  int depth_ = 0;
  bool quoted_ = false, escaped_ = false, in_arguments_ = false;
  std::string head_;  // of a call, up to its arguments
};

struct Call {
  std::string name, arguments;
};
struct ReadAnswer {
  std::string text;
  std::vector<Call> calls;
};
// All of an answer at once.
ReadAnswer read_answer(const CallRules& rules, std::string_view text);

}  // namespace quire::server
