// A model file, loaded: its vocabulary, its chat template and its weights. Immutable, and shared
// by any number of sessions.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quire/result.h"
#include "quire/token.h"

namespace quire {

struct ModelInfo {
  std::string path;
  std::string name;
  std::string architecture;
  int layers = 0;
  int width = 0;
  int q_heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int vocabulary = 0;
  std::int64_t context = 0;  // positions the model was trained for
  std::int64_t window = 0;   // of its local layers; 0 where it has none
  std::uint64_t parameters = 0;
  std::uint64_t weights_bytes = 0;  // of the tensors, as the file stores them
  bool has_chat_template = false;
};

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // a JSON object
};

struct Message {
  std::string role;  // "system", "user", "assistant" or "tool"
  std::string content;
  std::vector<ToolCall> tool_calls = {};  // of the assistant
  std::string tool_call_id = {};          // of a tool: the call it answers
};

struct ChatOptions {
  std::string tools = {};    // functions the assistant may call: a JSON list, as OpenAI's API takes it; empty: none
  bool begins_call = false;  // the prompt ends where {"name": ..., "arguments": {...}} is to be generated
};

struct LoadOptions {
  // Weights as kernels read them, which are made of the file's when a first session or engine begins, are kept in
  // PATH.packed and mapped from there the next time. A file that is not of this model and these kernels is written
  // anew.
  bool keep_packed = false;
};

class Model {
 public:
  static Result<std::shared_ptr<const Model>> load(const std::string& path, const LoadOptions& options = {});
  // What load() would find, without the vocabulary and hence in a moment: a file that is no model is refused here too.
  static Result<ModelInfo> inspect(const std::string& path);

  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model();

  const ModelInfo& info() const;
  // That PATH.packed was written, or why it was not, for people to read; empty where neither was needed, or not yet.
  std::string packed_note() const;

  // Text to tokens, with the BOS token in front where the model asks for it. Text such as
  // "<|im_end|>" becomes the token it spells.
  std::vector<TokenId> tokenize(std::string_view text) const;
  std::string text(std::span<const TokenId> tokens) const;
  bool ends_generation(TokenId token) const;
  bool adds_bos() const;

  bool has_chat_template() const;
  // The tokens of a conversation, up to where the assistant is to speak. What the template does not know of tools is
  // written out: the functions into the system message, calls and what they gave as <tool_call> and <tool_response>.
  Result<std::vector<TokenId>> chat_prompt(std::span<const Message> messages, const ChatOptions& options = {}) const;

  struct Parts;  // for the inside of the library
  const Parts& parts() const { return *parts_; }

 private:
  explicit Model(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace quire
