// What every grammar promises, whatever its source: a text drawn from the masks is complete within
// the limit, and is UTF-8.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/code_points.h"
#include "grammar/constraint.h"

namespace quire::fuzzing {

inline void require(bool condition) {
  if (!condition) std::abort();
}

inline std::shared_ptr<const TokenTrie> walk_vocabulary() {
  std::vector<std::string> tokens{""};  // the end token
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* piece :
       {"{\"", "\":", "\", \"", "\"}", "ab", "abc", "12", "true", "\\u", "\xC3\xA9", "\xE2\x82", "}}"}) {
    tokens.emplace_back(piece);
  }
  const auto bytes_of = [&](TokenId id) -> std::string_view { return tokens[static_cast<std::size_t>(id)]; };
  return std::make_shared<const TokenTrie>(*TokenTrie::create(tokens.size(), bytes_of, {0}));
}

// The text that `seed` draws with a few tokens more than the grammar needs.
inline std::string walk(const Grammar& grammar, std::uint64_t seed) {
  static const auto vocabulary = walk_vocabulary();
  auto compiled = CompiledGrammar::create(grammar, vocabulary);
  require(compiled.ok());
  Constraint constraint(*compiled);
  std::vector<std::uint64_t> mask((vocabulary->vocabulary() + 63) / 64);
  std::string text;
  for (std::int64_t left = constraint.tokens_to_close() + 6; left > 0; --left) {
    constraint.mask(left, mask);
    std::vector<TokenId> allowed;
    for (std::size_t i = 0; i < vocabulary->vocabulary(); ++i) {
      if ((mask[i / 64] >> (i % 64) & 1) != 0) allowed.push_back(static_cast<TokenId>(i));
    }
    require(!allowed.empty());
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const TokenId token = allowed[(seed >> 33) % allowed.size()];
    require(constraint.accept(token));
    if (token == 0) break;
    text += vocabulary->bytes(token);
    if (text.size() > 200) return "";  // long enough to see
  }
  require(constraint.complete());
  for (std::string_view rest = text; !rest.empty();) {
    const auto c = grammar::decode_char(rest);
    require(c.has_value());
    rest.remove_prefix(c->length);
  }
  return text;
}

}  // namespace quire::fuzzing
