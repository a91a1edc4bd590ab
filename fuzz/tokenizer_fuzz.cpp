// Any bytes through both kinds of tokenizer and back, and through StreamDecoder as tokens.
//
// The first byte chooses the pre-tokenizer, the rest is the text.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "text/bpe.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

using namespace quire;

constexpr const char* kPretokenizers[] = {"default", "gpt-2", "smollm", "llama-bpe", "qwen2"};

void require(bool condition) {
  if (!condition) std::abort();
}

Tokenizer make_bpe(const char* pre) {
  Vocab vocab;
  vocab.model = "gpt2";
  vocab.pre = pre;
  for (int b = 0; b < 256; ++b) vocab.tokens.push_back(alphabet_from_bytes(std::string(1, static_cast<char>(b))));
  for (const char* merge : {"t h", "th e", "Ġ the", "Ġ Ġ", "ĠĠ ĠĠ", "Ċ Ċ", "1 2", "' s", "Ã ©", "a a", "aa aa"}) {
    std::string merged = merge;
    merged.erase(merged.find(' '), 1);
    vocab.tokens.push_back(merged);
    vocab.merges.push_back(merge);
  }
  vocab.types.resize(vocab.tokens.size(), TokenType::normal);
  vocab.tokens.push_back("[u]");
  vocab.types.push_back(TokenType::user_defined);
  vocab.tokens.push_back("<c>");
  vocab.types.push_back(TokenType::control);
  return *Tokenizer::create(std::move(vocab));
}

Tokenizer make_spm(bool space_prefix) {
  Vocab vocab;
  vocab.add_space_prefix = space_prefix;
  vocab.model = "llama";
  vocab.tokens = {"<unk>", "<s>", "</s>", "▁", "a", "b", "▁a", "ab", "▁▁", "日", "日本", "> ▁", "\n", "\n\n"};
  vocab.scores = {0, 0, 0, -3, -4, -5, -1, -2, -2, -3, -1, -1, 0, 0};
  vocab.types.resize(vocab.tokens.size(), TokenType::normal);
  vocab.types[0] = TokenType::unknown;
  vocab.types[1] = vocab.types[2] = TokenType::control;
  vocab.types[12] = vocab.types[13] = TokenType::user_defined;
  for (int b = 0; b < 256; ++b) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(b));
    vocab.tokens.push_back(name);
    vocab.scores.push_back(0);
    vocab.types.push_back(TokenType::byte);
  }
  return *Tokenizer::create(std::move(vocab));
}

// What byte-level BPE makes of bytes that are no characters.
std::string repaired(std::string_view text) {
  if (is_valid_utf8(text)) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const LenientChar c = first_char_lenient(text);
    append_utf8(out, c.code_point);
    text.remove_prefix(c.length);
  }
  return out;
}

std::string replace_all(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

void check_stream(const Tokenizer& tokenizer, std::string_view bytes) {
  StreamDecoder decoder(tokenizer);
  for (const char c : bytes) require(is_valid_utf8(decoder.push(static_cast<unsigned char>(c) * 2 - 100)));
  require(is_valid_utf8(decoder.flush()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<Tokenizer> bpes = [] {
    std::vector<Tokenizer> all;
    for (const char* pre : kPretokenizers) all.push_back(make_bpe(pre));
    return all;
  }();
  static const Tokenizer spm = make_spm(false);
  static const Tokenizer prefixing_spm = make_spm(true);
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Tokenizer& bpe = bpes[data[0] % bpes.size()];

  require(bpe.decode(bpe.encode(text, true, Tokenizer::Special::as_text)) == repaired(text));
  bpe.encode(text, true, Tokenizer::Special::parse);

  // SentencePiece does not tell a space from U+2581, and a space it puts after each special token
  // does not come off again.
  const std::string spaced = replace_all(std::string(text), "\xE2\x96\x81", " ");
  if (is_valid_utf8(text)) require(spm.decode(spm.encode(text, true, Tokenizer::Special::as_text)) == spaced);
  prefixing_spm.decode(prefixing_spm.encode(text, true, Tokenizer::Special::parse));

  check_stream(bpe, text);
  check_stream(spm, text);
  return 0;
}
