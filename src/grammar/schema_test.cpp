#include "grammar/schema_validator.h"
#include "grammar/ten_schemas.h"
#include "grammar/test_support.h"

namespace quire {
namespace {

using namespace testing_support;

TEST(Schema, WhatIsDrawnAtRandomIsValidWithinAnyLimit) {
  const auto vocabulary = trie_of(small_vocabulary());
  std::mt19937 random(5);
  for (const char* schema : kTenSchemas) {
    Result<Grammar> grammar = grammar_of_schema(schema);
    ASSERT_TRUE(grammar.ok()) << schema << grammar.error().message;
    CompiledGrammar compiled = compiled_of(std::move(grammar).value(), vocabulary);
    const std::int64_t shortest = Constraint(compiled).tokens_to_close();
    for (int i = 0; i < 60; ++i) {
      const std::int64_t limit = shortest + static_cast<std::int64_t>(random() % (i < 30 ? 5 : 150));
      const auto text = random_text(compiled, *vocabulary, limit, random);
      ASSERT_TRUE(text.has_value()) << schema;
      ASSERT_TRUE(is_valid_text(*text, schema)) << schema << "\ngave " << *text;
    }
  }
}

struct Example {
  const char* schema;
  std::vector<const char*> valid, invalid;  // texts; valid ones as the grammar writes them
};

TEST(Schema, AgreesWithTheValidatorOnExamples) {
  const Example examples[] = {
      {R"({"type": "integer", "minimum": 7, "maximum": 1234})",
       {"7", "10", "99", "999", "1000", "1234", "1199"},
       {"6", "1235", "0", "-8", "07", "2000", "10000"}},
      {R"({"type": "integer", "minimum": -45, "maximum": -7})",
       {"-7", "-8", "-45", "-10", "-39"},
       {"-6", "-46", "7", "0", "-100"}},
      {R"({"type": "integer", "exclusiveMinimum": -1, "exclusiveMaximum": 2})", {"0", "1"}, {"-1", "2"}},
      {R"({"type": "integer", "minimum": 2.5})", {"3", "1000000"}, {"2", "-3"}},
      {R"({"type": "integer", "multipleOf": 15})", {"0", "15", "-30", "1500000"}, {"5", "20", "151"}},
      {R"({"type": "number", "minimum": 0.25, "maximum": 3})",
       {"0.25", "0.3", "1", "2.999", "3", "3.0", "0.251"},
       {"0.2", "0", "3.01", "-1", "0.249"}},
      {R"({"type": "number", "exclusiveMinimum": 1, "exclusiveMaximum": 1.05})",
       {"1.01", "1.049", "1.001"},
       {"1", "1.05", "1.0", "1.1", "1.06"}},
      {R"({"type": "number", "minimum": -0.5, "maximum": 0.5})",
       {"0", "-0.5", "0.5", "0.123", "-0.49"},
       {"-0.51", "0.6", "1", "-1"}},
      {R"({"type": "string", "minLength": 2, "maxLength": 3})",
       {"\"ab\"", "\"é日€\"", "\"\\u00e9\\n\""},
       {"\"a\"", "\"abcd\"", "\"\\ud83d\\ude00\""}},
      {R"({"type": "string", "pattern": "b+c"})", {"\"bc\"", "\"abbcd\""}, {"\"b\"", "\"cb\"", "\"\""}},
      {R"({"type": "string", "pattern": "^a\"|\\\\$"})", {"\"a\\\"xyz\"", "\"xy\\\\\""}, {"\"a\"", "\"\\\\x\""}},
      {R"({"enum": ["a", "ab", 1, null, {"x": [1]}]})",
       {"\"a\"", "\"ab\"", "1", "null", "{\"x\":[1]}"},
       {"\"b\"", "12", "\"abc\"", "{}"}},
      {R"({"enum": ["a", 1], "type": "string"})", {"\"a\""}, {"1"}},
      {R"({"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2})",
       {"[true]", "[true, false]", "[true,false]"},
       {"[]", "[true,true,true]", "[1]"}},
      {R"({"type": "array", "items": false})", {"[]"}, {"[1]"}},
      {R"({"type": "array", "prefixItems": [{"const": 1}], "items": {"const": 2}})",
       {"[1]", "[1,2,2]"},
       {"[2]", "[1,1]"}},
      {R"({"properties": {"a": {"const": 1}, "b": {"const": 2}}, "additionalProperties": false})",
       {"{}", "{\"a\":1}", "{\"b\": 2}", "{\"a\":1, \"b\":2}"},
       {"{\"a\":2}", "{\"c\":1}"}},
      {R"({"properties": {"ab": {"const": 1}}, "required": ["z"], "additionalProperties": {"const": 3}})",
       {"{\"z\":3}", "{\"ab\":1,\"z\":3,\"a\":3,\"abc\":3,\"é\":3,\"\":3}"},
       {"{}", "{\"ab\":3,\"z\":3}", "{\"z\":3,\"a\":1}"}},
      {R"({"type": "object"})", {"{}", "{\"x\": [1, {\"y\": null}]}"}, {"[]", "1"}},
      {R"({})", {"{}", "1.5e3", "\"x\"", "[true, null]"}, {}},
      {R"({"allOf": [{"type": "null"}], "description": "d"})", {"null"}, {"1"}},
      {R"({"type": ["integer", "null"], "minimum": 3})", {"3", "null"}, {"2", "\"3\""}},
  };
  for (const Example& example : examples) {
    Automaton automaton = automaton_of(grammar_of_schema(example.schema));
    for (const char* text : example.valid) {
      EXPECT_TRUE(is_valid_text(text, example.schema)) << "the example is wrong: " << example.schema << " " << text;
      EXPECT_TRUE(accepts(automaton, text)) << example.schema << " " << text;
    }
    for (const char* text : example.invalid) {
      EXPECT_FALSE(accepts(automaton, text)) << example.schema << " " << text;
    }
  }
}

// A key that is also a property would escape the property's schema if it came again, or in another spelling.
TEST(Schema, OtherKeysAreNoneOfTheProperties) {
  Automaton automaton =
      automaton_of(grammar_of_schema(R"({"properties": {"ab": {"const": 1}}, "additionalProperties": true})"));
  EXPECT_TRUE(accepts(automaton, R"({"ab":1,"a":2})"));
  EXPECT_FALSE(accepts(automaton, R"({"ab":1,"ab":2})"));
  EXPECT_FALSE(accepts(automaton, R"({"ab":1,"\u0061b":2})"));
}

TEST(Schema, BoundsHoldForEveryNumberDrawn) {
  const auto vocabulary = trie_of(small_vocabulary());
  std::mt19937 random(17);
  for (int i = 0; i < 150; ++i) {
    const bool integer = i % 2 == 0;
    const auto draw = [&] {
      const double value = static_cast<double>(random() % 20000) - 10000;
      return integer ? value : value / std::pow(10.0, static_cast<double>(random() % 6));
    };
    double low = draw(), high = draw();
    if (low > high) std::swap(low, high);
    Json schema{{"type", integer ? "integer" : "number"}};
    if (i % 3 != 0) schema[i % 5 == 0 ? "exclusiveMinimum" : "minimum"] = low;
    if (i % 4 != 0) schema[i % 7 == 0 ? "exclusiveMaximum" : "maximum"] = high;
    Result<Grammar> grammar = grammar_of_schema(schema.dump());
    ASSERT_TRUE(grammar.ok()) << schema << grammar.error().message;
    CompiledGrammar compiled = compiled_of(std::move(grammar).value(), vocabulary);
    for (int k = 0; k < 40; ++k) {
      const auto text = random_text(compiled, *vocabulary, 20, random);
      ASSERT_TRUE(text.has_value()) << schema;
      ASSERT_TRUE(is_valid_text(*text, schema.dump())) << schema << " gave " << *text;
    }
    if (integer && schema.contains("minimum")) {
      Automaton automaton = automaton_of(grammar_of_schema(schema.dump()));
      EXPECT_TRUE(accepts(automaton, std::to_string(static_cast<long>(low))));
      EXPECT_FALSE(accepts(automaton, std::to_string(static_cast<long>(low) - 1)));
    }
  }
}

TEST(Schema, KnowsFormats) {
  const Example examples[] = {
      {"date", {"2024-02-28", "1999-12-31"}, {"2024-02-30", "2024-13-01", "2024-1-1", "24-01-01"}},
      {"time", {"23:59:59Z", "00:00:00.5+01:30"}, {"24:00:00Z", "10:00Z", "10:00:00"}},
      {"date-time", {"2024-06-01T12:00:00Z"}, {"2024-06-01 12:00:00Z", "2024-06-01"}},
      {"duration", {"P1D", "PT5M", "P1Y2M3DT4H", "P3W"}, {"P", "1D", "PT", "P1H"}},
      {"email", {"a@b.co", "first.last+x@mail.example.org"}, {"a@b", "@b.co", "a b@c.de", "a..b@c.de"}},
      {"hostname", {"localhost", "a-b.example.com"}, {"-a.com", "a..b", ""}},
      {"ipv4", {"127.0.0.1", "255.255.255.255"}, {"256.0.0.1", "1.2.3", "01.2.3.4"}},
      {"ipv6",
       {"::", "::1", "fe80::1:2", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6::"},
       {"1:2:3", ":::", "1::2::3", "1:2:3:4:5:6:7:8:9"}},
      {"uuid",
       {"01234567-89ab-cdef-0123-456789abcdef"},
       {"0123456789abcdef0123456789abcdef", "g1234567-89ab-cdef-0123-456789abcdef"}},
  };
  for (const Example& example : examples) {
    Automaton automaton =
        automaton_of(grammar_of_schema(R"({"type":"string","format":")" + std::string(example.schema) + "\"}"));
    for (const char* text : example.valid) EXPECT_TRUE(accepts(automaton, "\"" + std::string(text) + "\"")) << text;
    for (const char* text : example.invalid) EXPECT_FALSE(accepts(automaton, "\"" + std::string(text) + "\"")) << text;
  }
}

TEST(Schema, RefusesByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"{", "not JSON"},
      {"[]", "schema #: an object was expected"},
      {R"({"type": "strin"})", "schema #/type: expected string, number"},
      {R"({"type": "object", "patternProperties": {}})", "schema #: keyword 'patternProperties' is not supported"},
      {R"({"oneOf": [{}]})", "keyword 'oneOf'"},
      {R"({"type": "object", "properties": {"a": {"not": {}}}})", "schema #/properties/a: keyword 'not'"},
      {R"({"type": "array", "uniqueItems": true})", "keyword 'uniqueItems'"},
      {R"({"type": "string", "minimum": 1})", "keyword 'minimum'"},
      {R"({"anyOf": [{}], "type": "string"})", "keyword 'type' is not supported beside 'anyOf'"},
      {R"({"allOf": [{}, {}]})", "schema #/allOf: more than one"},
      {R"({"$ref": "#/$defs/x"})", "$ref '#/$defs/x' leads nowhere"},
      {R"({"$ref": "http://a/b"})", "leads nowhere"},
      {R"({"$ref": "#"})", "no text of at most"},
      {R"({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}, "$ref": "#/$defs/a"})",
       "rule '#/$defs/a' begins with itself"},
      {R"({"type": "string", "format": "uri"})", "format 'uri' is not supported"},
      {R"({"type": "string", "pattern": "(?=a)b"})",
       "schema #/pattern: regular expression, at 2: (?= is not supported"},
      {R"({"type": "string", "pattern": "a", "maxLength": 3})", "only one is supported"},
      {R"({"type": "number", "multipleOf": 0.1})", "schema #/multipleOf"},
      {R"({"type": "integer", "minimum": 3, "maximum": 2})", "no number lies within"},
      {R"({"type": "number", "minimum": 3, "maximum": 2})", "no number lies within"},
      {R"({"type": "number", "minimum": 1e300})", "is outside what is supported"},
      {R"({"type": "string", "minLength": -1})", "schema #/minLength: a count was expected"},
      {R"({"type": "string", "maxLength": 4000000000})", "too large"},
      {R"({"type": "object", "properties": {}, "required": ["x"]})", "'x' is required and not among"},
      {R"({"enum": []})", "no value is of the type"},
      {R"({"const": 1, "enum": [2]})", "const is not among enum"},
  };
  for (const auto& [schema, message] : cases) {
    EXPECT_NE(message_of(grammar_of_schema(schema)).find(message), std::string::npos)
        << schema << "\nsays: " << message_of(grammar_of_schema(schema));
  }
  std::string deep = "{}";
  for (int i = 0; i < 200; ++i) deep = R"({"items":)" + deep + "}";
  EXPECT_NE(message_of(grammar_of_schema(deep)).find("more than 100 schemas in each other"), std::string::npos);
  EXPECT_NE(message_of(grammar_of_schema(R"({"const":)" + std::string(5000, '[') + std::string(5000, ']') + "}"))
                .find("deep"),
            std::string::npos);
}

TEST(JsonGrammar, IsJsonWithLittleSpace) {
  Automaton automaton = automaton_of(json_grammar());
  for (const char* text :
       {"{}", R"({"a":1})", R"({"a": [1, 2.5e-3, -0], "b\n\u00e9": {"c": null, "d": [true,false,[]]}})",
        "{\"é\":\"日本\"}"}) {
    EXPECT_TRUE(Json::accept(text)) << text;
    EXPECT_TRUE(accepts(automaton, text)) << text;
  }
  for (const char* text : {"", "[]", "1", "{ }", R"({"a" :1})", R"({"a":  1})", R"({"a":01})", R"({"a":1,})",
                           "{\"a\":\"\n\"}", R"({"a":"\ud800"})", R"({"a":"\x"})", "{\"a\":\"\xC0\x80\"}"}) {
    EXPECT_FALSE(accepts(automaton, text)) << text;
  }
}

TEST(JsonGrammar, WhatIsDrawnAtRandomParses) {
  const auto vocabulary = trie_of(small_vocabulary());
  std::mt19937 random(23);
  CompiledGrammar compiled = compiled_of(json_grammar(), vocabulary);
  for (int i = 0; i < 300; ++i) {
    const auto text = random_text(compiled, *vocabulary, 2 + static_cast<std::int64_t>(random() % 100), random);
    ASSERT_TRUE(text.has_value());
    ASSERT_TRUE(Json::accept(*text)) << *text;
  }
}

}  // namespace
}  // namespace quire
