// A JSON schema as grammar rules.
#pragma once

#include <deque>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/builder.h"
#include "grammar/json_rules.h"
#include "grammar/regex.h"
#include "quire/result.h"

namespace quire::grammar {

class SchemaCompiler {
 public:
  using Schema = nlohmann::ordered_json;  // properties are generated in the order they are written

  explicit SchemaCompiler(const Schema& root) : root_(root), json_(builder_) {}

  Result<Grammar> run();

 private:
  using Expr = GrammarBuilder::Expr;
  using Rule = GrammarBuilder::Rule;

  // Where a schema stands, for messages, and how deep.
  struct Place {
    std::string path;
    int depth;
    Place below(std::string_view step) const { return {path + "/" + std::string(step), depth + 1}; }
  };
  struct Property {
    std::string name;
    Expr member;  // "name": value
    bool required;
  };

  Result<Expr> compile(const Schema& schema, const Place& place);
  Result<Expr> compile_typed(const Schema& schema, std::string_view type, const Place& place);
  Result<Expr> compile_reference(const Schema& schema, const Place& place);
  Result<Expr> compile_any_of(const Schema& schema, std::string_view keyword, const Place& place);
  Result<Expr> compile_values(const Schema& schema, const Place& place);
  Result<Expr> compile_string(const Schema& schema, const Place& place);
  Result<Expr> compile_number(const Schema& schema, bool integer, const Place& place);
  Result<Expr> compile_array(const Schema& schema, const Place& place);
  Result<Expr> compile_object(const Schema& schema, const Place& place);

  Result<std::vector<Property>> compile_properties(const Schema& schema, std::optional<Expr> additional,
                                                   const Place& place);
  Expr members(const std::vector<Property>& properties, std::optional<Expr> additional);
  RegexContext within_string();

  // The types that the schema names, or those its keywords speak of; none for any.
  Result<std::vector<std::string>> types_of(const Schema& schema, const Place& place) const;
  Result<std::uint32_t> count_of(const Schema& schema, std::string_view keyword, std::uint32_t otherwise,
                                 const Place& place) const;
  Result<const Schema*> resolve(const std::string& reference, const Place& place) const;

  const Schema& root_;
  GrammarBuilder builder_;
  JsonRules json_;
  std::map<std::string, Rule> references_;
  std::deque<std::pair<std::string, Rule>> pending_;  // referred to, not compiled yet
};

}  // namespace quire::grammar
