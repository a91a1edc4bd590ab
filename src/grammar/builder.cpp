#include "grammar/builder.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace quire::grammar {

using Expr = GrammarBuilder::Expr;
using Rule = GrammarBuilder::Rule;

Expr GrammarBuilder::push(const ExprData& data) {
  exprs_.push_back(data);
  return static_cast<Expr>(exprs_.size() - 1);
}

Expr GrammarBuilder::empty() { return push({.kind = ExprData::Kind::empty}); }

Expr GrammarBuilder::literal(std::string_view bytes) {
  const auto first = static_cast<std::uint32_t>(text_.size());
  text_ += bytes;
  return push({.kind = ExprData::Kind::literal, .first = first, .count = static_cast<std::uint32_t>(bytes.size())});
}

Expr GrammarBuilder::chars(const CodePointSet& set) {
  const auto first = static_cast<std::uint32_t>(sequences_.size());
  const std::vector<Utf8Sequence> sequences = utf8_sequences(set);
  sequences_.insert(sequences_.end(), sequences.begin(), sequences.end());
  return push({.kind = ExprData::Kind::chars, .first = first, .count = static_cast<std::uint32_t>(sequences.size())});
}

Expr GrammarBuilder::sequence(std::vector<Expr> parts) {
  if (parts.size() == 1) return parts[0];
  const auto first = static_cast<std::uint32_t>(children_.size());
  children_.insert(children_.end(), parts.begin(), parts.end());
  return push({.kind = ExprData::Kind::sequence, .first = first, .count = static_cast<std::uint32_t>(parts.size())});
}

Expr GrammarBuilder::choice(std::vector<Expr> options) {
  if (options.size() == 1) return options[0];
  const auto first = static_cast<std::uint32_t>(children_.size());
  children_.insert(children_.end(), options.begin(), options.end());
  return push({.kind = ExprData::Kind::choice, .first = first, .count = static_cast<std::uint32_t>(options.size())});
}

Expr GrammarBuilder::repeat(Expr part, std::uint32_t least, std::uint32_t most) {
  QUIRE_ASSERT(least <= most, "a repetition has a least count above its most");
  const auto first = static_cast<std::uint32_t>(children_.size());
  children_.push_back(part);
  return push({.kind = ExprData::Kind::repeat, .first = first, .count = 1, .least = least, .most = most});
}

Expr GrammarBuilder::call(Rule rule) { return push({.kind = ExprData::Kind::call, .rule = rule}); }

Expr GrammarBuilder::any_of(std::string_view ascii) {
  CodePointSet set;
  for (const char c : ascii) set.add(static_cast<unsigned char>(c), static_cast<unsigned char>(c));
  return chars(set);
}

Expr GrammarBuilder::one_of(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  if (texts.empty()) return chars({});
  return one_of_sorted(texts, 0);
}

Expr GrammarBuilder::one_of_sorted(std::span<const std::string> texts, std::size_t from) {
  const std::string& least = texts.front();
  const std::string& greatest = texts.back();
  const auto differ = std::mismatch(least.begin() + static_cast<std::ptrdiff_t>(from), least.end(),
                                    greatest.begin() + static_cast<std::ptrdiff_t>(from), greatest.end());
  const auto shared = static_cast<std::size_t>(differ.first - least.begin());
  const Expr stem = literal(std::string_view(least).substr(from, shared - from));
  if (texts.size() == 1) return stem;

  std::vector<Expr> options;
  if (least.size() == shared) {
    options.push_back(empty());
    texts = texts.subspan(1);
  }
  while (!texts.empty()) {
    const auto other = std::find_if(texts.begin(), texts.end(),
                                    [&](const std::string& text) { return text[shared] != texts.front()[shared]; });
    const auto alike = static_cast<std::size_t>(other - texts.begin());
    options.push_back(one_of_sorted(texts.first(alike), shared));
    texts = texts.subspan(alike);
  }
  return sequence({stem, choice(std::move(options))});
}

Rule GrammarBuilder::declare(std::string name) {
  names_.push_back(std::move(name));
  bodies_.emplace_back();
  return static_cast<Rule>(names_.size() - 1);
}

void GrammarBuilder::define(Rule rule, Expr expr) { bodies_[index(rule)] = expr; }

Rule GrammarBuilder::add(Expr expr) {
  const Rule rule = declare("");
  define(rule, expr);
  return rule;
}

}  // namespace quire::grammar
