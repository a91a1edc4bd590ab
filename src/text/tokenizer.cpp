#include "text/tokenizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "core/fail.h"
#include "text/bpe.h"
#include "text/pretokenizer.h"
#include "text/sentencepiece.h"
#include "text/special_matcher.h"
#include "text/text_encoder.h"

namespace quire {
namespace {

// Model files seldom say which tokens end a generation, and some give them the wrong type. These
// are known by their text to end one, and are control tokens whatever the file says. The first
// row holds those that end a turn, likeliest first.
constexpr std::string_view kEndOfTurn[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>",         "<|endoftext|>",     "<|end_of_text|>",
    "<EOT>",      "_<EOT>",     "[EOT]",   "<｜end▁of▁sentence｜>", "<end_of_utterance>"};
constexpr std::string_view kEndOfGeneration[] = {
    "<|eom_id|>",   "<|return|>",       "<|call|>",   "<|flush|>",   "<|calls|>",  "</s>",        "[EOS]", "<eos>",
    "<turn|>",      "<|tool_response>", "[e~[",       "<|fim_pad|>", "<fim-pad>",  "<fim_pad>",   "<PAD>", "[PAD]",
    "<|fim_repo|>", "<|repo_name|>",    "<fim-repo>", "<REPO>",      "<reponame>", "<|file_sep|>"};
// Control tokens that some files call user-defined.
constexpr std::string_view kFillInTheMiddle[] = {
    "<|fim_prefix|>",  "<fim-prefix>",  "<fim_prefix>",    "<｜fim▁begin｜>", "<PRE>",           "▁<PRE>",
    "<|code_prefix|>", "<|prefix|>",    "<|fim_suffix|>",  "<fim-suffix>",    "<fim_suffix>",    "<｜fim▁hole｜>",
    "<SUF>",           "▁<SUF>",        "<|code_suffix|>", "<|suffix|>",      "<|fim_middle|>",  "<fim-middle>",
    "<fim_middle>",    "<｜fim▁end｜>", "<MID>",           "▁<MID>",          "<|code_middle|>", "<|middle|>"};

// Positions within one text are 32 bits wide further down, and marking spaces may triple it.
constexpr std::size_t kLargestText = std::size_t{1} << 30;

std::string replace_all(std::string_view text, std::string_view what, std::string_view by) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t found = std::min(text.find(what, at), text.size());
    out += text.substr(at, found - at);
    if (found < text.size()) out += by;
    at = found + what.size();
  }
  return out;
}

Result<void> check_shape(const Vocab& vocab) {
  const std::size_t count = vocab.tokens.size();
  if (count == 0) return fail(Errc::bad_file, "[tokenizer] the vocabulary is empty");
  if (count > static_cast<std::size_t>(std::numeric_limits<TokenId>::max())) {
    return fail(Errc::bad_file, "[tokenizer] the vocabulary has {} tokens; ids have 31 bits", count);
  }
  if (!vocab.types.empty() && vocab.types.size() != count) {
    return fail(Errc::bad_file, "[tokenizer] {} token types for {} tokens", vocab.types.size(), count);
  }
  if (!vocab.scores.empty() && vocab.scores.size() != count) {
    return fail(Errc::bad_file, "[tokenizer] {} scores for {} tokens", vocab.scores.size(), count);
  }
  for (std::size_t i = 0; i < vocab.scores.size(); ++i) {
    if (std::isnan(vocab.scores[i]))
      return fail(Errc::bad_file, "[tokenizer] the score of token {} is not a number", i);
  }
  return {};
}

Result<void> check_id(const Vocab& vocab, std::optional<TokenId> id, std::string_view name) {
  if (!id || (*id >= 0 && static_cast<std::size_t>(*id) < vocab.tokens.size())) return {};
  return fail(Errc::bad_file, "[tokenizer] the {} token is {}, but there are {} tokens", name, *id,
              vocab.tokens.size());
}

}  // namespace

struct Tokenizer::State {
  Vocab vocab;
  std::unordered_map<std::string_view, TokenId> ids;  // views of vocab.tokens
  std::vector<bool> ends_generation;                  // [tokens]
  std::string pieces;                                 // one after the other
  std::vector<std::size_t> piece_ends;                // [tokens]
  SpecialMatcher specials;
  std::unique_ptr<TextEncoder> encoder;
  bool add_bos = false, add_eos = false, space_prefix = false;

  bool has(TokenId id) const { return id >= 0 && static_cast<std::size_t>(id) < vocab.tokens.size(); }
  TokenType& type(TokenId id) { return vocab.types[static_cast<std::size_t>(id)]; }

  Result<void> index_tokens();
  Result<void> check_ids() const;
  void mark_known_tokens();
  Result<void> make_encoder();
  Result<void> make_pieces();
  void collect_specials();
  void encode_text(std::string_view text, TextEncoder::Work& work) const;
};

Result<void> Tokenizer::State::index_tokens() {
  const std::size_t count = vocab.tokens.size();
  vocab.types.resize(count, TokenType::normal);
  ids.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (vocab.tokens[i].empty()) vocab.tokens[i] = fmt::format("[EMPTY_{}]", i);
    const auto [first, added] = ids.try_emplace(vocab.tokens[i], static_cast<TokenId>(i));
    if (!added) {
      return fail(Errc::bad_file, "[tokenizer] tokens {} and {} are both '{}'", first->second, i, vocab.tokens[i]);
    }
  }
  return {};
}

Result<void> Tokenizer::State::check_ids() const {
  QUIRE_CHECK_OK(check_id(vocab, vocab.bos, "BOS"));
  QUIRE_CHECK_OK(check_id(vocab, vocab.eos, "EOS"));
  QUIRE_CHECK_OK(check_id(vocab, vocab.eot, "end-of-turn"));
  QUIRE_CHECK_OK(check_id(vocab, vocab.unk, "unknown"));
  for (const TokenId id : vocab.extra_eog) QUIRE_CHECK_OK(check_id(vocab, id, "end-of-generation"));
  return {};
}

void Tokenizer::State::mark_known_tokens() {
  ends_generation.assign(vocab.tokens.size(), false);
  const auto mark = [&](std::string_view name, bool ends) -> std::optional<TokenId> {
    const auto found = ids.find(name);
    if (found == ids.end()) return std::nullopt;
    type(found->second) = TokenType::control;
    if (ends) ends_generation[static_cast<std::size_t>(found->second)] = true;
    return found->second;
  };
  for (const std::string_view name : kEndOfTurn) {
    const auto id = mark(name, true);
    if (id && !vocab.eot) vocab.eot = id;
  }
  for (const std::string_view name : kEndOfGeneration) mark(name, true);
  for (const std::string_view name : kFillInTheMiddle) mark(name, false);

  for (const auto id : {vocab.eos, vocab.eot}) {
    if (id) ends_generation[static_cast<std::size_t>(*id)] = true;
  }
  for (const TokenId id : vocab.extra_eog) ends_generation[static_cast<std::size_t>(id)] = true;
}

Result<void> Tokenizer::State::make_encoder() {
  bool usually_adds_bos = true;
  if (vocab.model == "gpt2") {
    QUIRE_TRY(Pretokenizer pretokenizer, Pretokenizer::create(vocab.pre));
    usually_adds_bos = pretokenizer.traits().adds_bos;
    QUIRE_TRY(encoder, Bpe::create(vocab, std::move(pretokenizer)));
  } else if (vocab.model == "llama") {
    space_prefix = vocab.add_space_prefix.value_or(true);
    encoder = std::make_unique<SentencePiece>(vocab, space_prefix);
  } else {
    return fail(Errc::unsupported, "[tokenizer] the vocabulary is of kind '{}'; known are gpt2 and llama", vocab.model);
  }

  add_bos = vocab.add_bos.value_or(usually_adds_bos && vocab.bos.has_value());
  add_eos = vocab.add_eos.value_or(false);
  if (add_bos && !vocab.bos) return fail(Errc::bad_file, "[tokenizer] a BOS token is to be added, but none is named");
  if (add_eos && !vocab.eos) return fail(Errc::bad_file, "[tokenizer] an EOS token is to be added, but none is named");
  return {};
}

Result<void> Tokenizer::State::make_pieces() {
  for (std::size_t i = 0; i < vocab.tokens.size(); ++i) {
    const std::string& token = vocab.tokens[i];
    switch (vocab.types[i]) {
      case TokenType::normal:
        pieces += vocab.model == "gpt2" ? bytes_from_alphabet(token) : replace_all(token, kSpaceMark, " ");
        break;
      case TokenType::unknown:
      case TokenType::control:
      case TokenType::user_defined:
        pieces += token;
        break;
      case TokenType::byte: {
        const auto byte = parse_byte_token(token);
        if (!byte) {
          return fail(Errc::bad_file, "[tokenizer] token {} is a byte, but is '{}'; expected <0x00> to <0xFF>", i,
                      token);
        }
        pieces += static_cast<char>(*byte);
        break;
      }
      case TokenType::unused:
        break;
    }
    piece_ends.push_back(pieces.size());
  }
  return {};
}

void Tokenizer::State::collect_specials() {
  for (std::size_t i = 0; i < vocab.tokens.size(); ++i) {
    const TokenType type = vocab.types[i];
    if (type != TokenType::user_defined && type != TokenType::control && type != TokenType::unknown) continue;
    const bool always = type == TokenType::user_defined;
    specials.add(vocab.tokens[i], static_cast<TokenId>(i),
                 always ? SpecialMatcher::When::always : SpecialMatcher::When::only_if_parsing);
  }
}

void Tokenizer::State::encode_text(std::string_view text, TextEncoder::Work& work) const {
  bool starts_anew = true;
  while (text.size() > kLargestText) {
    std::size_t cut = kLargestText;
    while (cut > kLargestText - 3 && (text[cut] & 0xC0) == 0x80) --cut;  // not within a character
    encoder->encode(text.substr(0, cut), starts_anew, work);
    text.remove_prefix(cut);
    starts_anew = false;
  }
  encoder->encode(text, starts_anew, work);
}

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::create(Vocab vocab) {
  QUIRE_CHECK_OK(check_shape(vocab));
  if (vocab.model == "llama") {
    // SentencePiece's own numbering, which its files need not repeat.
    const auto assume = [&](std::optional<TokenId>& id, TokenId usual) {
      if (!id && static_cast<std::size_t>(usual) < vocab.tokens.size()) id = usual;
    };
    assume(vocab.unk, 0);
    assume(vocab.bos, 1);
    assume(vocab.eos, 2);
  }
  auto state = std::make_unique<State>();
  state->vocab = std::move(vocab);
  QUIRE_CHECK_OK(state->check_ids());
  QUIRE_CHECK_OK(state->index_tokens());
  state->mark_known_tokens();
  QUIRE_CHECK_OK(state->make_encoder());
  QUIRE_CHECK_OK(state->make_pieces());
  state->collect_specials();
  return Tokenizer(std::move(state));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, bool add_special, Special special) const {
  TextEncoder::Work work;
  if (add_special && state_->add_bos) work.ids.push_back(*state_->vocab.bos);
  std::size_t done = 0;
  for (const auto& match : state_->specials.find(text, special == Special::parse)) {
    if (match.begin > done) state_->encode_text(text.substr(done, match.begin - done), work);
    work.ids.push_back(match.id);
    done = match.begin + match.length;
  }
  if (done < text.size()) state_->encode_text(text.substr(done), work);
  if (add_special && state_->add_eos) work.ids.push_back(*state_->vocab.eos);
  return std::move(work.ids);
}

std::string Tokenizer::guarded(std::string_view text, std::string_view guard) const {
  std::string safe(text);
  // Again, because a token may have hidden another that overlaps it.
  for (bool found = true; found;) {
    found = false;
    std::string next;
    std::size_t done = 0;
    for (const auto& match : state_->specials.find(safe, true)) {
      std::size_t cut = match.begin + 1;
      const std::size_t end = match.begin + match.length;
      while (cut < end && (safe[cut] & 0xC0) == 0x80) ++cut;  // not within a character
      if (!is_special(match.id) || cut == end) continue;
      next.append(safe, done, cut - done);
      next += guard;
      done = cut;
      found = true;
    }
    if (found) safe = next.append(safe, done);
  }
  return safe;
}

std::vector<TokenId> Tokenizer::encode_guarded(std::string_view text, std::string_view guard) const {
  std::vector<TokenId> ids;
  const auto add_text = [&](std::string_view part) {
    const auto encoded = encode(replace_all(part, guard, ""), false, Special::as_text);
    ids.insert(ids.end(), encoded.begin(), encoded.end());
  };
  std::size_t done = 0;
  for (const auto& match : state_->specials.find(text, true)) {
    if (match.begin > done) add_text(text.substr(done, match.begin - done));
    ids.push_back(match.id);
    done = match.begin + match.length;
  }
  if (done < text.size()) add_text(text.substr(done));
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> tokens) const {
  std::string text;
  for (const TokenId token : tokens) {
    if (!is_special(token)) text += piece(token);
  }
  if (state_->space_prefix && text.starts_with(' ')) text.erase(0, 1);  // the one that encode put there
  return text;
}

std::string_view Tokenizer::piece(TokenId token) const {
  if (!state_->has(token)) return {};
  const auto i = static_cast<std::size_t>(token);
  const std::size_t begin = i == 0 ? 0 : state_->piece_ends[i - 1];
  return std::string_view(state_->pieces).substr(begin, state_->piece_ends[i] - begin);
}

bool Tokenizer::is_special(TokenId token) const {
  if (!state_->has(token)) return true;
  const TokenType type = state_->vocab.types[static_cast<std::size_t>(token)];
  return type == TokenType::control || type == TokenType::unknown;
}

bool Tokenizer::is_end_of_generation(TokenId token) const {
  return state_->has(token) && state_->ends_generation[static_cast<std::size_t>(token)];
}

std::optional<TokenId> Tokenizer::find(std::string_view spelled) const {
  const auto found = state_->ids.find(spelled);
  if (found == state_->ids.end()) return std::nullopt;
  return found->second;
}

std::size_t Tokenizer::size() const { return state_->vocab.tokens.size(); }
std::optional<TokenId> Tokenizer::bos() const { return state_->vocab.bos; }
std::optional<TokenId> Tokenizer::eos() const { return state_->vocab.eos; }
std::optional<TokenId> Tokenizer::eot() const { return state_->vocab.eot; }
bool Tokenizer::adds_bos() const { return state_->add_bos; }

}  // namespace quire
