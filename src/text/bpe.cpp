#include "text/bpe.h"

#include <optional>
#include <utility>

#include "core/fail.h"
#include "text/utf8.h"

namespace quire {
namespace {

// Bytes that print spell themselves; the others take, in order, the characters from U+0100 on.
bool spells_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<std::optional<char>, 512> byte{};  // by character; those in use end below U+0144

  Alphabet() {
    char32_t next = 0x100;
    for (unsigned b = 0; b < 256; ++b) {
      character[b] = spells_itself(b) ? char32_t{b} : next++;
      byte[character[b]] = static_cast<char>(b);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

bool is_surrogate(char32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

std::uint64_t pair_key(std::uint32_t left, std::uint32_t right) { return (std::uint64_t{left} << 32) | right; }

}  // namespace

std::string bytes_from_alphabet(std::string_view spelled) {
  std::string bytes;
  while (!spelled.empty()) {
    const LenientChar c = first_char_lenient(spelled);
    const auto& table = alphabet().byte;
    if (c.code_point < table.size() && table[c.code_point]) {
      bytes += *table[c.code_point];
    } else {
      bytes += spelled.substr(0, c.length);
    }
    spelled.remove_prefix(c.length);
  }
  return bytes;
}

std::string alphabet_from_bytes(std::string_view bytes) {
  std::string spelled;
  for (const char byte : bytes) append_utf8(spelled, alphabet().character[static_cast<unsigned char>(byte)]);
  return spelled;
}

Bpe::Bpe(const Vocab& vocab, Pretokenizer pretokenizer)
    : pretokenizer_(std::move(pretokenizer)), token_count_(vocab.tokens.size()) {
  symbols_.reserve(vocab.tokens.size() + 256);
  for (const std::string& token : vocab.tokens) intern(token);
  for (unsigned b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    byte_symbols_[b] = intern(alphabet_from_bytes({&byte, 1}));
  }
}

Bpe::SymbolId Bpe::intern(std::string spelled) {
  const auto next = static_cast<SymbolId>(symbols_.size());
  return symbols_.try_emplace(std::move(spelled), next).first->second;
}

Result<std::unique_ptr<Bpe>> Bpe::create(const Vocab& vocab, Pretokenizer pretokenizer) {
  std::unique_ptr<Bpe> bpe(new Bpe(vocab, std::move(pretokenizer)));
  bpe->merges_.reserve(vocab.merges.size());
  for (std::size_t i = 0; i < vocab.merges.size(); ++i) {
    const std::string& merge = vocab.merges[i];
    const std::size_t space = merge.find(' ', 1);  // a spelling may begin with a space, never contain one
    if (space == std::string::npos || space + 1 == merge.size()) {
      return fail(Errc::bad_file, "[tokenizer] merge {} is '{}'; expected two parts with a space between them", i,
                  merge);
    }
    std::string left = merge.substr(0, space), right = merge.substr(space + 1);
    const SymbolId merged = bpe->intern(left + right);
    const std::uint64_t key = pair_key(bpe->intern(std::move(left)), bpe->intern(std::move(right)));
    bpe->merges_.try_emplace(key, PairMerger::Merge{static_cast<std::uint32_t>(i), merged});
  }
  return bpe;
}

void Bpe::encode(std::string_view text, bool /*starts_anew*/, Work& work) const {
  // Bytes that are no characters become U+FFFD, as llama.cpp has it. Surrogates stay as they are,
  // but to the pre-tokenizer, which takes only valid text, they show as U+E000: neither letter nor
  // number nor space, and as long.
  std::string repaired, visible;
  if (!is_valid_utf8(text)) {
    for (std::string_view rest = text; !rest.empty();) {
      const LenientChar c = first_char_lenient(rest);
      append_utf8(repaired, c.code_point);
      append_utf8(visible, is_surrogate(c.code_point) ? char32_t{0xE000} : c.code_point);
      rest.remove_prefix(c.length);
    }
    text = repaired;
  }

  pretokenizer_.split(visible.empty() ? text : visible, [&](std::size_t begin, std::size_t end) {
    work.words.append(text.substr(begin, end - begin), work.ids,
                      [&](std::string_view word) { encode_word(word, work); });
  });
}

void Bpe::encode_word(std::string_view word, Work& work) const {
  if (pretokenizer_.traits().whole_words_first) {
    const auto whole = symbols_.find(alphabet_from_bytes(word));
    if (whole != symbols_.end() && is_token(whole->second)) {
      work.ids.push_back(static_cast<TokenId>(whole->second));
      return;
    }
  }

  work.merger.clear();
  for (std::uint32_t i = 0; i < word.size(); ++i) {
    work.merger.add({byte_symbols_[static_cast<unsigned char>(word[i])], i, i + 1});
  }
  work.merger.run(
      [&](const PairMerger::Symbol& left, const PairMerger::Symbol& right) -> std::optional<PairMerger::Merge> {
        const auto found = merges_.find(pair_key(left.id, right.id));
        if (found == merges_.end()) return std::nullopt;
        return found->second;
      });
  work.merger.for_each([&](const PairMerger::Symbol& symbol) {
    if (is_token(symbol.id)) {
      work.ids.push_back(static_cast<TokenId>(symbol.id));
      return;
    }
    // No token: its bytes, of which a vocabulary without the whole alphabet may lack some.
    for (std::uint32_t i = symbol.begin; i < symbol.end; ++i) {
      const SymbolId byte = byte_symbols_[static_cast<unsigned char>(word[i])];
      if (is_token(byte)) work.ids.push_back(static_cast<TokenId>(byte));
    }
  });
}

}  // namespace quire
