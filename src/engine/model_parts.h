// What a loaded model consists of.
#pragma once

#include <optional>

#include "loader/gguf.h"
#include "loader/mapped_file.h"
#include "model/config.h"
#include "model/weights.h"
#include "quire/model.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quire {

struct Model::Parts {
  MappedFile file;  // weights and metadata point into it
  Gguf gguf;
  ModelConfig config;
  Weights weights;
  Tokenizer tokenizer;
  std::optional<ChatTemplate> chat_template;
  ModelInfo info;
};

}  // namespace quire
