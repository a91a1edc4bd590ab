// A model's chat template, and what it knows of tools: found out by trying it. What it does not know is written
// into the messages as text.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "quire/model.h"
#include "text/chat_template.h"

namespace quire {

class ChatDialect {
 public:
  ChatDialect(ChatTemplate chat_template, std::string bos, std::string eos);

  // A conversation up to where the assistant is to speak. Whatever is said in it goes through `guard` first: only
  // the template may write control tokens.
  using Guard = std::function<std::string(std::string_view)>;
  Result<std::string> render(std::span<const Message> messages, const ChatOptions& options, const Guard& guard) const;

  // How the template takes a call's arguments: some write an object as JSON, others expect that somebody has.
  enum class Calls { as_objects, as_strings, unknown };

  bool knows_tools() const { return knows_tools_; }
  Calls calls() const { return calls_; }
  const std::string& before_call() const { return before_call_; }  // what the assistant says before {"name": ...

 private:
  Json context(std::span<const Message> messages, const Json& tools) const;
  void find_out_about_tools();
  void find_out_about_calls();

  ChatTemplate template_;
  std::string bos_, eos_;
  bool knows_tools_ = true;
  Calls calls_ = Calls::unknown;
  std::string before_call_;
};

}  // namespace quire
