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
};

struct Message {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

class Model {
 public:
  static Result<std::shared_ptr<const Model>> load(const std::string& path);

  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model();

  const ModelInfo& info() const;

  // Text to tokens, with the BOS token in front where the model asks for it. Text such as
  // "<|im_end|>" becomes the token it spells.
  std::vector<TokenId> tokenize(std::string_view text) const;
  std::string text(std::span<const TokenId> tokens) const;
  bool ends_generation(TokenId token) const;
  bool adds_bos() const;

  bool has_chat_template() const;
  // The tokens of a conversation, up to where the assistant is to speak.
  Result<std::vector<TokenId>> chat_prompt(std::span<const Message> messages) const;

  struct Parts;  // for the inside of the library
  const Parts& parts() const { return *parts_; }

 private:
  explicit Model(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace quire
