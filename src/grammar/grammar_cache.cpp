#include "grammar/grammar_cache.h"

#include <utility>

#include "core/check.h"
#include "core/fail.h"

namespace quire {

Result<Grammar> compile_grammar(const GrammarSource& source) {
  switch (source.kind) {
    case GrammarSource::Kind::json:
      return json_grammar();
    case GrammarSource::Kind::schema:
      return grammar_of_schema(source.text);
    case GrammarSource::Kind::regex:
      return grammar_of_regex(source.text);
    case GrammarSource::Kind::gbnf:
      return parse_gbnf(source.text);
  }
  assertion_failed("source.kind", "a kind of grammar that does not exist", __FILE__, __LINE__);
}

GrammarCache::GrammarCache(std::shared_ptr<const TokenTrie> vocabulary, std::size_t capacity)
    : vocabulary_(std::move(vocabulary)), capacity_(capacity) {
  QUIRE_ASSERT(capacity > 0, "a cache of no grammars");
}

Result<std::shared_ptr<CompiledGrammar>> GrammarCache::get(const GrammarSource& source) {
  const std::lock_guard lock(mutex_);
  if (const auto known = entries_.find(source); known != entries_.end()) {
    uses_.splice(uses_.begin(), uses_, known->second.use);
    return known->second.grammar;
  }
  QUIRE_TRY(const Grammar grammar, compile_grammar(source));
  QUIRE_TRY(CompiledGrammar writable, CompiledGrammar::create(grammar, vocabulary_));
  auto compiled = std::make_shared<CompiledGrammar>(std::move(writable));
  if (entries_.size() == capacity_) {
    entries_.erase(*uses_.back());
    uses_.pop_back();
  }
  const auto added = entries_.emplace(source, Entry{compiled, {}}).first;
  uses_.push_front(&added->first);
  added->second.use = uses_.begin();
  return compiled;
}

}  // namespace quire
