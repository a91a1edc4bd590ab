#include "quire/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/fail.h"
#include "engine/model_parts.h"

namespace quire {
namespace {

ModelInfo make_info(const Gguf& gguf, const ModelConfig& c, const Weights& w) {
  ModelInfo info;
  info.path = gguf.file_name();
  info.name = c.name;
  info.architecture = c.architecture;
  info.layers = c.layers;
  info.width = c.width;
  info.q_heads = c.q_heads;
  info.kv_heads = c.kv_heads;
  info.head_dim = c.head_dim;
  info.vocabulary = c.vocabulary;
  info.context = c.context;
  for (const LayerConfig& layer : c.layer) info.window = std::max(info.window, layer.window);
  info.parameters = w.parameters;
  info.weights_bytes = w.bytes;
  info.has_chat_template = gguf.has("tokenizer.chat_template");
  return info;
}

// One of the characters that Unicode sets apart for use inside programs, and that nobody said.
std::optional<std::string> unused_character(std::span<const Message> messages, const ChatOptions& options) {
  for (char last = '\x90'; last <= '\xAF'; ++last) {  // U+FDD0 to U+FDEF
    const std::string character{'\xEF', '\xB7', last};
    const auto in = [&](const std::string& text) { return text.find(character) != text.npos; };
    const bool used = in(options.tools) || std::ranges::any_of(messages, [&](const Message& m) {
                        return in(m.role) || in(m.content) || in(m.tool_call_id) ||
                               std::ranges::any_of(m.tool_calls, [&](const ToolCall& call) {
                                 return in(call.id) || in(call.name) || in(call.arguments);
                               });
                      });
    if (!used) return character;
  }
  return std::nullopt;
}

// What changes whenever a file does.
Digest state_of_file(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  const auto written = std::filesystem::last_write_time(path, error);
  return Hasher().update(bytes).update(written.time_since_epoch().count()).finish();
}

}  // namespace

Result<std::shared_ptr<const Model>> Model::load(const std::string& path, const LoadOptions& options) {
  QUIRE_TRY(MappedFile file, MappedFile::open(path));
  QUIRE_TRY(Gguf gguf, Gguf::parse(file.bytes(), path));
  QUIRE_TRY(ModelConfig config, read_config(gguf));
  QUIRE_TRY(Weights weights, read_weights(gguf, config));
  QUIRE_TRY(Vocab vocab, read_vocab(gguf));
  if (std::ssize(vocab.tokens) > config.vocabulary) {
    return fail(Errc::bad_file, "{}: {} tokens in the vocabulary, but the embedding has {} rows", path,
                vocab.tokens.size(), config.vocabulary);
  }
  auto tokenizer = Tokenizer::create(std::move(vocab));
  if (!tokenizer.ok()) return fail(tokenizer.error().code, "{}: {}", path, tokenizer.error().message);

  std::optional<ChatDialect> chat;
  if (gguf.has("tokenizer.chat_template")) {
    QUIRE_TRY(const auto source, gguf.string("tokenizer.chat_template"));
    auto parsed = ChatTemplate::parse(source);
    if (!parsed.ok()) return fail(parsed.error().code, "{}: chat template: {}", path, parsed.error().message);
    const auto spelled = [&](std::optional<TokenId> token) {
      return token ? std::string(tokenizer->piece(*token)) : std::string();
    };
    chat.emplace(std::move(*parsed), spelled(tokenizer->bos()), spelled(tokenizer->eos()));
  }
  ModelInfo info = make_info(gguf, config, weights);
  std::unique_ptr<const Parts> parts(new Parts{std::move(file), std::move(gguf), std::move(config), std::move(weights),
                                               std::move(*tokenizer), std::move(chat), std::move(info),
                                               options.keep_packed ? path + ".packed" : std::string(),
                                               options.keep_packed ? state_of_file(path) : Digest{}});
  return std::shared_ptr<const Model>(new Model(std::move(parts)));
}

Result<ModelInfo> Model::inspect(const std::string& path) {
  QUIRE_TRY(const MappedFile file, MappedFile::open(path));
  QUIRE_TRY(const Gguf gguf, Gguf::parse(file.bytes(), path));
  QUIRE_TRY(ModelConfig config, read_config(gguf));
  QUIRE_TRY(const Weights weights, read_weights(gguf, config));
  return make_info(gguf, config, weights);
}

Model::Model(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Model::~Model() = default;

const ModelInfo& Model::info() const { return parts_->info; }

std::string Model::packed_note() const {
  const PackedFileUse use = parts_->use_of_packed_file();
  if (use.done == PackedFileUse::Done::written) return fmt::format("packed weights kept in {}", parts_->packed_path);
  if (use.done == PackedFileUse::Done::failed) return fmt::format("packed weights are not kept: {}", use.failure);
  return {};
}

std::vector<TokenId> Model::tokenize(std::string_view text) const {
  return parts_->tokenizer.encode(text, true, Tokenizer::Special::parse);
}

std::string Model::text(std::span<const TokenId> tokens) const { return parts_->tokenizer.decode(tokens); }

bool Model::ends_generation(TokenId token) const { return parts_->tokenizer.is_end_of_generation(token); }

bool Model::adds_bos() const { return parts_->tokenizer.adds_bos(); }

bool Model::has_chat_template() const { return info().has_chat_template; }

Result<std::vector<TokenId>> Model::chat_prompt(std::span<const Message> messages, const ChatOptions& options) const {
  const Tokenizer& tokenizer = parts_->tokenizer;
  if (!parts_->chat) {
    return fail(Errc::unsupported, "{}: the file has no chat template; complete text with -p instead", info().path);
  }
  const auto guard = unused_character(messages, options);
  if (!guard) return fail(Errc::invalid_argument, "the messages use all noncharacters of Unicode; leave one out");
  QUIRE_TRY(const std::string text, parts_->chat->render(messages, options, [&](std::string_view said) {
    return tokenizer.guarded(said, *guard);
  }));
  // Most templates write the BOS token themselves; it is not wanted twice.
  auto tokens = tokenizer.encode_guarded(text, *guard);
  if (tokenizer.adds_bos() && tokenizer.bos() && (tokens.empty() || tokens.front() != *tokenizer.bos())) {
    tokens.insert(tokens.begin(), *tokenizer.bos());
  }
  return tokens;
}

}  // namespace quire
