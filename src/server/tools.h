// The functions that a client lets the model call, as the three APIs spell them.
#pragma once

#include <string>
#include <vector>

#include "quire/engine.h"
#include "server/call_reader.h"
#include "server/fields.h"

namespace quire::server {

enum class ToolSpelling { chat, responses, anthropic };

struct Tools {
  struct Function {
    std::string name, description;
    Json parameters;  // a schema of an object
  };
  enum class Choice {
    none,      // the model does not hear of them
    free,      // it may call, or answer
    enforced,  // it must call: its answer is constrained to a call
  };
  std::vector<Function> functions;
  Choice choice = Choice::none;
  std::string named;           // the one that must be called; empty: any
  bool several = true;         // more than one call may come
  bool asked_several = false;  // and the client said so

  ChatOptions chat_options() const;
  CallRules rules() const;
};

// "tools", "tool_choice" and whether calls may be parallel.
Api<Tools> tools_from(const Fields& fields, ToolSpelling spelling);

// Makes the answer a call where it must be one, and lets it be one where it must otherwise follow a schema.
Api<void> constrain(Request& request, const Tools& tools);

}  // namespace quire::server
