#include "text/vocab.h"

#include <limits>
#include <string_view>

#include "core/fail.h"
#include "loader/gguf.h"

namespace quire {
namespace {

std::vector<std::string> to_strings(const std::vector<std::string_view>& views) { return {views.begin(), views.end()}; }

Result<std::optional<TokenId>> read_id(const Gguf& file, std::string_view key) {
  if (!file.has(key)) return std::optional<TokenId>();
  QUIRE_TRY(const std::uint64_t id, file.integer(key, std::numeric_limits<TokenId>::max()));
  return std::optional(static_cast<TokenId>(id));
}

Result<std::optional<bool>> read_flag(const Gguf& file, std::string_view key) {
  if (!file.has(key)) return std::optional<bool>();
  QUIRE_TRY(const bool flag, file.boolean(key));
  return std::optional(flag);
}

}  // namespace

Result<Vocab> read_vocab(const Gguf& file) {
  Vocab vocab;
  QUIRE_TRY(vocab.model, file.string("tokenizer.ggml.model"));
  if (file.has("tokenizer.ggml.pre")) {
    QUIRE_TRY(vocab.pre, file.string("tokenizer.ggml.pre"));
  }
  QUIRE_TRY(const auto tokens, file.strings("tokenizer.ggml.tokens"));
  vocab.tokens = to_strings(tokens);
  if (file.has("tokenizer.ggml.merges")) {
    QUIRE_TRY(const auto merges, file.strings("tokenizer.ggml.merges"));
    vocab.merges = to_strings(merges);
  }
  if (file.has("tokenizer.ggml.scores")) {
    QUIRE_TRY(vocab.scores, file.floats("tokenizer.ggml.scores"));
  }
  if (file.has("tokenizer.ggml.token_type")) {
    QUIRE_TRY(const auto types, file.integers("tokenizer.ggml.token_type"));
    vocab.types.reserve(types.size());
    for (const std::int64_t type : types) {
      const bool known = type >= 1 && type <= static_cast<std::int64_t>(TokenType::byte);
      vocab.types.push_back(known ? static_cast<TokenType>(type) : TokenType::unused);
    }
  }

  QUIRE_TRY(vocab.bos, read_id(file, "tokenizer.ggml.bos_token_id"));
  QUIRE_TRY(vocab.eos, read_id(file, "tokenizer.ggml.eos_token_id"));
  QUIRE_TRY(vocab.eot, read_id(file, "tokenizer.ggml.eot_token_id"));
  QUIRE_TRY(vocab.unk, read_id(file, "tokenizer.ggml.unknown_token_id"));
  for (const char* key : {"tokenizer.ggml.eom_token_id", "tokenizer.ggml.fim_pad_token_id",
                          "tokenizer.ggml.fim_rep_token_id", "tokenizer.ggml.fim_sep_token_id"}) {
    QUIRE_TRY(const auto id, read_id(file, key));
    if (id) vocab.extra_eog.push_back(*id);
  }
  QUIRE_TRY(vocab.add_bos, read_flag(file, "tokenizer.ggml.add_bos_token"));
  QUIRE_TRY(vocab.add_eos, read_flag(file, "tokenizer.ggml.add_eos_token"));
  QUIRE_TRY(vocab.add_space_prefix, read_flag(file, "tokenizer.ggml.add_space_prefix"));
  return vocab;
}

}  // namespace quire
