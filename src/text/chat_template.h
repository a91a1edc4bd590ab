// Chat templates: the Jinja programs in model files that turn messages into a prompt.
//
// A small interpreter of the part of the language that chat templates use, with the settings they
// are written for: trim_blocks, lstrip_blocks, no automatic escaping, an immutable sandbox. The
// text of a template is untrusted: parsing and rendering are bounded in time, memory and stack.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "quire/result.h"

namespace quire {

using Json = nlohmann::ordered_json;  // a template may print an object, so the order of keys matters

struct RenderLimits {
  std::size_t steps = 1'000'000;                    // evaluated nodes, copied values, 128-byte pieces of text
  std::size_t output_bytes = std::size_t{8} << 20;  // also of any single string on the way
  int depth = 256;                                  // statements, expressions and macro calls inside each other
};

class ChatTemplate {
 public:
  // An error names the line.
  static Result<ChatTemplate> parse(std::string_view source);

  // The context is an object: messages, add_generation_prompt, bos_token, eos_token, tools and
  // whatever else the template asks for. Safe to call from several threads.
  Result<std::string> render(const Json& context, const RenderLimits& limits = {}) const;

 private:
  struct Program;
  explicit ChatTemplate(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const Program> program_;
};

}  // namespace quire
