// Compiled grammars by their source, the least recently used dropped first.
#pragma once

#include <compare>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "grammar/constraint.h"
#include "quire/result.h"

namespace quire {

struct GrammarSource {
  enum class Kind { json, schema, regex, gbnf };
  Kind kind = Kind::json;
  std::string text = {};  // not for Kind::json
  auto operator<=>(const GrammarSource&) const = default;
};

Result<Grammar> compile_grammar(const GrammarSource& source);

// get is thread-safe; what it returns is for the thread that generates.
class GrammarCache {
 public:
  explicit GrammarCache(std::shared_ptr<const TokenTrie> vocabulary, std::size_t capacity = 64);

  Result<std::shared_ptr<CompiledGrammar>> get(const GrammarSource& source);

 private:
  struct Entry {
    std::shared_ptr<CompiledGrammar> grammar;
    std::list<const GrammarSource*>::iterator use;
  };

  std::shared_ptr<const TokenTrie> vocabulary_;
  std::size_t capacity_;
  std::mutex mutex_;
  std::map<GrammarSource, Entry> entries_;
  std::list<const GrammarSource*> uses_;  // latest first; keys of entries_
};

}  // namespace quire
