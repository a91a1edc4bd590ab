#include "grammar/json_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "core/check.h"

namespace quire {
namespace grammar {
namespace {

using Expr = GrammarBuilder::Expr;

struct ShortEscape {
  char32_t c;
  std::string_view spelled;
};
constexpr std::array<ShortEscape, 7> kShortEscapes{
    {{'"', "\\\""}, {'\\', "\\\\"}, {'\b', "\\b"}, {'\f', "\\f"}, {'\n', "\\n"}, {'\r', "\\r"}, {'\t', "\\t"}}};

const CodePointSet& escaped_chars() {
  static const CodePointSet set{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  return set;
}

struct NameTree {
  bool is_name = false;
  std::map<char32_t, std::size_t> next;
};

std::vector<NameTree> tree_of(const std::vector<std::string>& names) {
  std::vector<NameTree> tree(1);
  for (const std::string& name : names) {
    std::size_t at = 0;
    for (std::string_view rest = name; !rest.empty();) {
      const DecodedChar c = *decode_char(rest);
      rest.remove_prefix(c.length);
      const auto [known, is_new] = tree[at].next.try_emplace(c.code_point, tree.size());
      const std::size_t next = known->second;
      if (is_new) tree.emplace_back();
      at = next;
    }
    tree[at].is_name = true;
  }
  return tree;
}

}  // namespace

JsonRules::JsonRules(GrammarBuilder& builder)
    : builder_(builder),
      value_(builder.declare("value")),
      object_(builder.declare("object")),
      array_(builder.declare("array")),
      string_(builder.declare("string")),
      number_(builder.declare("number")),
      integer_(builder.declare("integer")),
      comma_(builder.add(builder.sequence({builder.literal(","), builder.optional(builder.literal(" "))}))),
      colon_(builder.add(builder.sequence({builder.literal(":"), builder.optional(builder.literal(" "))}))),
      char_(builder.declare("char")) {
  define_string();
  define_numbers();
  builder_.define(value_, builder_.choice({object(), array(), string(), number(), boolean(), null()}));
  builder_.define(array_, builder_.sequence({builder_.literal("["), list(value(), 0, GrammarBuilder::kUnbounded),
                                             builder_.literal("]")}));
  const Expr member = builder_.sequence({string(), colon(), value()});
  builder_.define(object_, builder_.sequence({builder_.literal("{"), list(member, 0, GrammarBuilder::kUnbounded),
                                              builder_.literal("}")}));
}

void JsonRules::define_string() {
  const auto hex = [&](std::uint32_t count) {
    return builder_.repeat(builder_.any_of("0123456789abcdefABCDEF"), count, count);
  };
  // A surrogate stands for a character only before or behind its other half.
  const Expr plain_code = builder_.choice({
      builder_.sequence({builder_.any_of("0123456789abcefABCEF"), hex(3)}),
      builder_.sequence({builder_.any_of("dD"), builder_.any_of("01234567"), hex(2)}),
  });
  const Expr surrogate_pair =
      builder_.sequence({builder_.any_of("dD"), builder_.any_of("89abAB"), hex(2), builder_.literal("\\u"),
                         builder_.any_of("dD"), builder_.any_of("cdefCDEF"), hex(2)});
  const Expr escape = builder_.sequence(
      {builder_.literal("\\"),
       builder_.choice({builder_.any_of("\"\\/bfnrt"),
                        builder_.sequence({builder_.literal("u"), builder_.choice({plain_code, surrogate_pair})})})});
  const Expr any_char = builder_.choice({builder_.chars(escaped_chars().complement()), escape});
  builder_.define(char_, any_char);
  builder_.define(string_,
                  builder_.sequence({builder_.literal("\""), builder_.repeat(any_char, 0, GrammarBuilder::kUnbounded),
                                     builder_.literal("\"")}));
}

Expr JsonRules::digits(std::uint32_t least, std::uint32_t most) {
  return builder_.repeat(builder_.any_of("0123456789"), least, most);
}

void JsonRules::define_numbers() {
  const auto whole = [&] {
    return builder_.choice(
        {builder_.literal("0"), builder_.sequence({builder_.any_of("123456789"), digits(0, kMostDigits - 1)})});
  };
  const auto minus = [&] { return builder_.optional(builder_.literal("-")); };
  builder_.define(integer_, builder_.sequence({minus(), whole()}));
  const Expr fraction = builder_.sequence({builder_.literal("."), digits(1, kMostDigits)});
  const Expr exponent =
      builder_.sequence({builder_.any_of("eE"), builder_.optional(builder_.any_of("+-")), digits(1, 2)});
  builder_.define(number_,
                  builder_.sequence({minus(), whole(), builder_.optional(fraction), builder_.optional(exponent)}));
}

Expr JsonRules::spelled(const CodePointSet& set) {
  std::vector<Expr> options{builder_.chars(set.without(escaped_chars()))};
  std::vector<std::string> escapes;
  for (char32_t c = 0; c < 0x80; ++c) {
    if (!set.contains(c) || !escaped_chars().contains(c)) continue;
    const auto* known = std::find_if(kShortEscapes.begin(), kShortEscapes.end(),
                                     [&](const ShortEscape& escape) { return escape.c == c; });
    escapes.push_back(known != kShortEscapes.end() ? std::string(known->spelled)
                                                   : fmt::format("\\u{:04x}", static_cast<unsigned>(c)));
  }
  if (!escapes.empty()) options.push_back(builder_.one_of(std::move(escapes)));
  return builder_.choice(std::move(options));
}

// A rule of its own, so that what is inside a string is the same state wherever the string stands.
Expr JsonRules::quoted(Expr content) {
  return builder_.call(builder_.add(builder_.sequence({builder_.literal("\""), content, builder_.literal("\"")})));
}

Expr JsonRules::list(Expr item, std::uint32_t least, std::uint32_t most) {
  if (most == 0) return builder_.empty();
  const Rule shared = builder_.add(item);
  const std::uint32_t more = most == GrammarBuilder::kUnbounded ? most : most - 1;
  const Expr rest =
      builder_.repeat(builder_.sequence({comma(), builder_.call(shared)}), least == 0 ? 0 : least - 1, more);
  const Expr some = builder_.sequence({builder_.call(shared), rest});
  return least == 0 ? builder_.optional(some) : some;
}

Expr JsonRules::key_other_than(const std::vector<std::string>& names) {
  const CodePointSet plain = escaped_chars().complement();
  const Rule any_rest = builder_.add(builder_.sequence(
      {builder_.repeat(builder_.chars(plain), 0, GrammarBuilder::kUnbounded), builder_.literal("\"")}));
  const std::vector<NameTree> tree = tree_of(names);
  std::vector<Rule> rules;
  for (std::size_t i = 0; i < tree.size(); ++i) rules.push_back(builder_.declare("key"));
  for (std::size_t i = 0; i < tree.size(); ++i) {
    CodePointSet others = plain;
    std::vector<Expr> options;
    for (const auto& [c, next] : tree[i].next) {
      others = others.without({{c, c}});
      if (plain.contains(c))
        options.push_back(builder_.sequence({builder_.chars({{c, c}}), builder_.call(rules[next])}));
    }
    options.push_back(builder_.sequence({builder_.chars(others), builder_.call(any_rest)}));
    if (!tree[i].is_name) options.push_back(builder_.literal("\""));
    builder_.define(rules[i], builder_.choice(std::move(options)));
  }
  return builder_.sequence({builder_.literal("\""), builder_.call(rules[0])});
}

}  // namespace grammar

Grammar json_grammar() {
  grammar::GrammarBuilder builder;
  grammar::JsonRules rules(builder);
  Result<Grammar> built = builder.build(builder.add(rules.object()));
  QUIRE_ASSERT(built.ok(), "the grammar of JSON does not compile");
  return std::move(built).value();
}

}  // namespace quire
