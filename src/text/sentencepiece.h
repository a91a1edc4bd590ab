// SentencePiece vocabularies (Llama 2, Gemma): no words; spaces are U+2581, symbols start as
// characters, and of all neighbours that together spell a token the one with the best score
// merges. Characters that are no token fall back to tokens for their bytes.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/ids.h"
#include "text/pair_merger.h"
#include "text/text_encoder.h"
#include "text/vocab.h"

namespace quire {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

// The byte that a token spelled "<0x00>" to "<0xFF>" stands for.
std::optional<std::uint8_t> parse_byte_token(std::string_view token);

class SentencePiece final : public TextEncoder {
 public:
  // The vocabulary must outlive it. space_prefix: text that starts anew gets a space in front.
  SentencePiece(const Vocab& vocab, bool space_prefix);

  void encode(std::string_view text, bool starts_anew, Work& work) const override;

 private:
  std::optional<TokenId> find(std::string_view text) const;
  void rank_by_score(const std::vector<float>& scores, std::size_t count);
  void note_joints(std::string_view token);
  bool can_join(std::string_view text, std::size_t at) const;
  void encode_part(std::string_view part, Work& work) const;

  bool space_prefix_;
  std::optional<TokenId> unknown_;
  std::size_t longest_token_ = 0;
  std::unordered_map<std::string_view, TokenId> ids_;
  std::vector<std::uint32_t> ranks_;  // [tokens], 0 for the best score; equal scores have equal ranks
  std::array<std::optional<TokenId>, 256> byte_tokens_;

  // Whether some token has a character ending in byte a followed by one beginning with byte b; the
  // last column is for U+2581. Where it does not, no merge can cross, and text is cut into parts.
  std::array<std::bitset<257>, 256> joints_;
};

}  // namespace quire
